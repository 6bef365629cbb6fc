/** Prints the results of writes and reads in the same way for all commands. */
import { type Resource, resourcesIn } from '../../admin-client/answers.ts';
import type { View } from '../terminal/render.ts';
import type { Globals, Session } from '../terminal/session.ts';

/** The result of a write: as a table one sentence, otherwise the resource with its position. */
export function printWriteResult(
  session: Session,
  resource: Resource,
  what: string,
  id: string,
  done: string,
): Promise<void> {
  noteWarnings(session, resource);
  return session.out.lines([`${what} ${id} ${outcome(session.globals, resource, done)}`], resource, id);
}

/** What a write did as it was asked to, and is rarely meant. */
export function noteWarnings(session: Session, { warnings }: Resource): void {
  if (Array.isArray(warnings)) for (const text of warnings) session.note(`warning: ${String(text)}`);
}

/** `created at position 12`, `unchanged`, or `would be created`. */
export function outcome({ dryRun }: Globals, resource: Resource, done: string): string {
  if (resource['unchanged'] === true) return 'unchanged';
  return dryRun ? `would be ${done}` : `${done} at position ${String(resource['position'])}`;
}

/** A sign-in link; of a dry run only that one would be made. */
export async function showLink(
  session: Session,
  { url, expiresAt }: Resource,
  note: (until: string) => string,
): Promise<void> {
  const { dryRun } = session.globals;
  if (dryRun) return session.out.lines(['a link would be made'], { expiresAt, dryRun }, '-');
  await session.out.lines([String(url)], { url, expiresAt }, String(url));
  session.note(note(String(expiresAt)));
}

/** Prints a list; `extend` adds what another call knows of its items. */
export async function showList(
  session: Session,
  answer: Resource,
  view: View,
  extend?: (items: readonly Resource[]) => Promise<readonly Resource[]>,
): Promise<void> {
  await session.out.list(
    extend ? { ...answer, items: await extend(resourcesIn(answer, 'items')) } : answer,
    view,
  );
  const { next, total } = answer;
  if (typeof next === 'string') session.note(`there are ${String(total)}; the next ones: --after ${next}`);
}
