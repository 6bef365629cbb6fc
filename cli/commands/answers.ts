/** Prints the results of reads and writes in the same way for all commands. */
import { listMember, type Resource } from '../admin-client/answers.ts';
import type { View } from '../terminal/render.ts';
import type { Globals, Session } from '../terminal/session.ts';
import { isStaged, showChange } from './staged-change.ts';

/** Prints the result of a write: one sentence in table format, and the resource with its position in other formats. */
export function printWriteResult(
  session: Session,
  resource: Resource,
  what: string,
  id: string,
  done: string,
): Promise<void> {
  noteWarnings(session, resource);
  if (isStaged(resource)) return showChange(session, resource);
  return session.out.lines([`${what} ${id} ${formatOutcome(session.globals, resource, done)}`], resource, id);
}

/** Prints the warnings in a response. They point out effects that the user requested but may not have intended. */
export function noteWarnings(session: Session, { warnings }: Resource): void {
  if (Array.isArray(warnings)) for (const text of warnings) session.note(`warning: ${String(text)}`);
}

/** Describes what a command did, such as `created at position 12`, `unchanged`, or `would be created`. */
export function formatOutcome({ dryRun }: Globals, resource: Resource, done: string): string {
  if (resource['unchanged'] === true) return 'unchanged';
  return dryRun ? `would be ${done}` : `${done} at position ${String(resource['position'])}`;
}

/** Prints a sign-in link. In a dry run, prints only that the link would be created. */
export async function showLink(
  session: Session,
  { url, expiresAt }: Resource,
  note: (until: string) => string,
): Promise<void> {
  const { dryRun } = session.globals;
  if (dryRun) return session.out.lines(['a link would be created'], { expiresAt, dryRun }, '-');
  await session.out.lines([String(url)], { url, expiresAt }, String(url));
  session.note(note(String(expiresAt)));
}

/** The part of a list that a single call reads. */
export interface ListPart {
  readonly limit?: number;
  readonly after?: string;
}

interface ListPrinting {
  readonly view: View;
  /** Maximum number of items on all pages together, or undefined if there is no limit. */
  readonly limit: number | undefined;
  /** Number of rows to request per page, or undefined to read the list in one call without a limit. */
  readonly rowsPerPage: number | undefined;
  ask(part: ListPart): Promise<Resource>;
  /** Adds data from another API call to the items of a page. */
  extend?(items: readonly Resource[], part: ListPart): Promise<readonly Resource[]>;
}

/** Prints a list page by page, so that the first rows of a long list appear immediately. */
export async function showList(session: Session, list: ListPrinting): Promise<void> {
  const { view, limit = Number.POSITIVE_INFINITY, rowsPerPage, ask, extend } = list;
  const printed = session.out.listing(view);
  let shown = 0;
  let after: string | undefined;
  for (;;) {
    const part = {
      ...(rowsPerPage !== undefined && { limit: Math.min(rowsPerPage, limit - shown) }),
      ...(after !== undefined && { after }),
    };
    const answer = await ask(part);
    const items = listMember(answer, 'items');
    await printed.page({ ...answer, items: extend ? await extend(items, part) : items });
    shown += items.length;
    const { next, total } = answer;
    if (typeof next !== 'string') return printed.end();
    if (shown >= limit) {
      await printed.end();
      const all = typeof total === 'number' ? String(total) : 'more';
      return session.note(`there are ${all}; the next ones: --after ${next}`);
    }
    after = next;
  }
}
