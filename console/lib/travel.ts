/** The moment that the pages show: now, or a past position or time from the URL. */
import { location, setQuery } from './router.ts';

/** undefined means now. */
export function moment(): string | undefined {
  return location.value.query.get('at') ?? undefined;
}

/** Whether the page at this path can show any moment. */
export function hasPast(path: string): boolean {
  return /^\/(?:(?:fleet|nodes|stacks|orgs|models|tiers|keys|explain)(?:\/|$)|$)/.test(path);
}

export function travelTo(at: string | undefined): void {
  setQuery({ at: at ?? '' });
}

/** Paths of reads that the control plane answers for any moment. */
const readsWithPast =
  /^\/(?:organisations|members|tiers|anonymous|models|keys|stacks|pool|nodes|fleet|status)(?:[/?]|$)/;

/** Path of a read at the moment that the pages show. */
export function atMoment(path: string): string {
  const at = moment();
  if (at === undefined || !readsWithPast.test(path)) return path;
  return `${path}${path.includes('?') ? '&' : '?'}${new URLSearchParams({ at }).toString()}`;
}
