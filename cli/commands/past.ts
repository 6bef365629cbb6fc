/** `diff --from --to` and `undo`: two moments compared, and a commit taken back. */
import type { Resource } from '../../admin-client/answers.ts';
import { Exit } from '../terminal/errors.ts';
import { position } from '../terminal/options.ts';
import type { Session } from '../terminal/session.ts';
import { printableJson } from '../terminal/text.ts';
import { changeLines } from './change-lines.ts';

/** Exit 0: the same; 1: something differs. */
export async function diffMoments(session: Session, from: string, to: string | undefined): Promise<void> {
  const answer = await (await session.api()).get('/changes', { from, to }, 120_000);
  const items = answer.items as readonly Resource[];
  await session.out.lines(changeLines(items), answer, items.map(({ id }) => id).join(' '));
  const between = `between positions ${answer.from} and ${answer.to}`;
  if (answer.truncated) session.note(`only the first ${items.length} rows; there are more`);
  if (items.length === 0) return session.note(`no differences ${between}`);
  session.note(`${items.length} rows differ ${between}`);
  throw new Exit(1);
}

export async function undo(session: Session, _options: unknown, text: string): Promise<void> {
  const of = position(text);
  const api = await session.api();
  const inverse = await api.get(`/events/${of}/undo`);
  const { method, path, body } = inverse;
  const line = `${method} ${path}${body === undefined ? '' : ` ${printableJson(body)}`}`;
  if (!session.globals.yes && !session.globals.dryRun) {
    await session.out.lines([line], inverse, of);
    session.note(`nothing was changed; run it: headgate undo ${of} --yes`);
    return;
  }
  const answer = (await api.write(method as 'POST', path, body)) as Resource;
  const done = session.globals.dryRun ? 'would be taken back' : 'taken back';
  await session.out.lines([`commit ${of} ${done}: ${line}`], answer, of);
}
