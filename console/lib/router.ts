/**
 * Client-side router. The URL contains the state of the page: its path, filters and opened items. Links are ordinary links.
 */
import { signal } from '@preact/signals';

export interface Location {
  readonly path: string;
  readonly parts: readonly string[];
  readonly query: URLSearchParams;
}

function parseLocation({ pathname, search }: Pick<URL, 'pathname' | 'search'>): Location {
  const parts = pathname.split('/').filter(Boolean).map(decodePart);
  return { path: pathname, parts, query: new URLSearchParams(search) };
}

function decodePart(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export const location = signal<Location>(parseLocation(window.location));

export function go(url: string, options: { readonly replace?: boolean } = {}): void {
  try {
    if (options.replace) history.replaceState(null, '', url);
    else history.pushState(null, '', url);
  } catch {
    // Ignore the error, because browsers limit how often the URL may change. The page changes anyway, and the next change
    // fixes the URL.
  }
  const before = location.value.path;
  location.value = parseLocation(new URL(url, window.location.href));
  if (location.value.path !== before) window.scrollTo(0, 0);
}

/** Changes filters in the URL. An empty value removes the filter. */
export function setQuery(changes: Readonly<Record<string, string>>): void {
  const query = new URLSearchParams(location.value.query);
  for (const [name, value] of Object.entries(changes)) {
    if (value === '') query.delete(name);
    else query.set(name, value);
  }
  const text = query.toString();
  go(`${location.value.path}${text === '' ? '' : `?${text}`}`, { replace: true });
}

export function startRouter(): void {
  window.addEventListener('popstate', () => {
    location.value = parseLocation(window.location);
  });
  document.addEventListener('click', (event) => {
    if (event.defaultPrevented || event.button !== 0) return;
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = event.target instanceof Element ? event.target.closest('a') : null;
    if (!link || link.origin !== window.location.origin || link.hasAttribute('download') || link.target)
      return;
    if (link.hash !== '' && link.pathname === window.location.pathname) return;
    event.preventDefault();
    go(`${link.pathname}${link.search}`);
  });
}
