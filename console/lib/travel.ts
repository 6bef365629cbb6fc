/** The moment that the pages show: now, or a position or a time of the past, which stands in the address. */
import { location, setQuery } from './router.ts';

/** Undefined: now. */
export function moment(): string | undefined {
  return location.value.query.get('at') ?? undefined;
}

/** Pages that can show any moment, by their path; `/` is one of them. */
export function hasPast(path: string): boolean {
  return /^\/(?:(?:fleet|nodes|stacks|orgs|models|tiers|keys|explain)(?:\/|$)|$)/.test(path);
}

export function travelTo(at: string | undefined): void {
  setQuery({ at: at ?? '' });
}

/** Reads of the state, which the control plane answers for any moment. */
const readsWithPast =
  /^\/(?:organisations|members|tiers|anonymous|models|keys|stacks|pool|nodes|fleet|status)(?:[/?]|$)/;

/** A read's path at the moment that the pages show. */
export function atMoment(path: string): string {
  const at = moment();
  if (at === undefined || !readsWithPast.test(path)) return path;
  return `${path}${path.includes('?') ? '&' : '?'}${new URLSearchParams({ at }).toString()}`;
}
