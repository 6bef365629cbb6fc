/** Prints the results of writes and reads in the same way for all commands. */
import type { Query } from '../../admin-client/admin-client.ts';
import { type Resource, resourcesIn } from '../../admin-client/answers.ts';
import { count } from '../terminal/options.ts';
import type { View } from '../terminal/render.ts';
import type { Globals, Session } from '../terminal/session.ts';
import type { Verb } from '../terminal/verbs.ts';

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

/** Reads and prints a list; `extend` adds what another call knows of its items. */
export async function showList(
  session: Session,
  path: string,
  view: View,
  query: Query = {},
  extend?: (items: readonly Resource[]) => Promise<readonly Resource[]>,
): Promise<void> {
  const api = await session.api();
  const answer: Resource = await api.get(path, query);
  await session.out.list(
    extend ? { ...answer, items: await extend(resourcesIn(answer, 'items')) } : answer,
    view,
  );
  const { next, total } = answer;
  if (typeof next === 'string') session.note(`there are ${String(total)}; the next ones: --after ${next}`);
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

/** The options of a list that the control plane searches, sorts and gives page after page. */
export interface PageOptions extends ListOptions {
  readonly text?: string;
  readonly sort?: string;
  readonly after?: string;
}

export function withPages(verb: Verb): Verb {
  return verb
    .option('--text <text>', 'only rows that contain it')
    .option('--sort <field>', 'order by a field of the JSON output; --sort=-FIELD reverses it')
    .option('--limit <n>', 'maximum number of items', count)
    .option('--after <cursor>', 'continue after an earlier page');
}

/** The part of a query that these options are. */
export function pageQuery({ text, sort, limit, after }: PageOptions): Query {
  return { text, sort, limit, after };
}
