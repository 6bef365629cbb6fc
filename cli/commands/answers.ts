/** Prints the results of writes and reads in the same way for all commands. */
import type { Query } from '../../admin-client/admin-client.ts';
import type { Resource } from '../../admin-client/answers.ts';
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
  return session.out.lines([`${what} ${id} ${outcome(session.globals, resource, done)}`], resource, id);
}

/** `created at position 12`, `unchanged`, or `would be created`. */
export function outcome({ dryRun }: Globals, resource: Resource, done: string): string {
  if (resource['unchanged'] === true) return 'unchanged';
  return dryRun ? `would be ${done}` : `${done} at position ${String(resource['position'])}`;
}

/** Reads and prints a list. */
export async function showList(session: Session, path: string, view: View, query: Query = {}): Promise<void> {
  const api = await session.api();
  await session.out.list(await api.get(path, query), view);
}

/** Reads and prints a single resource. */
export async function showResource(session: Session, path: string, view: View): Promise<void> {
  const api = await session.api();
  await session.out.resource(await api.get(path), view);
}

/** The options of a list. */
export interface ListOptions {
  readonly limit?: number;
}
