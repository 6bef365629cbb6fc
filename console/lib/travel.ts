/** Moment whose state the pages show. It is either now, or a past position or time that the URL contains. */
import { location, setQuery } from './router.ts';

/** Returns the past moment in the URL, or undefined if the pages show the present. */
export function moment(): string | undefined {
  return location.value.query.get('at') ?? undefined;
}

/** Whether the page at this path can show a past moment. */
export function hasPast(path: string): boolean {
  return /^\/(?:(?:fleet|nodes|stacks|orgs|models|tiers|keys|explain)(?:\/|$)|$)/.test(path);
}

export function travelTo(at: string | undefined): void {
  setQuery({ at: at ?? '' });
}

/** Paths of reads for which the control plane accepts a past moment. */
const readsWithPast =
  /^\/(?:organisations|members|tiers|anonymous|models|keys|stacks|pool|nodes|fleet|status)(?:[/?]|$)/;

/** Adds the past moment that the pages show, if any, to the path of a read. */
export function atMoment(path: string): string {
  const at = moment();
  if (at === undefined || !readsWithPast.test(path)) return path;
  return `${path}${path.includes('?') ? '&' : '?'}${new URLSearchParams({ at }).toString()}`;
}
