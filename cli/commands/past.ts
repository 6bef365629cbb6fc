/** `headgate diff --from --to` compares two past states, and `headgate undo` reverses a commit. */

import type { OperationAnswer } from '../../schemas/admin/admin.ts';
import { listMember, type Resource } from '../admin-client/answers.ts';
import { changeLines } from '../terminal/change-lines.ts';
import { Exit } from '../terminal/errors.ts';
import { parsePosition } from '../terminal/options.ts';
import type { Session } from '../terminal/session.ts';
import { cellText } from '../terminal/text.ts';
import { describeEvent } from './event-list.ts';

/** Exits with 0 if the states are equal, and with 1 if they differ. */
export async function diffMoments(session: Session, from: string, to: string | undefined): Promise<void> {
  const answer = await (await session.api()).run('changes.get', { from, to }, 120_000);
  const items = answer.items as readonly Resource[];
  await session.out.lines(changeLines(items), answer, items.map(({ id }) => id).join(' '));
  const between = `between positions ${answer.from} and ${answer.to}`;
  if (answer.truncated) session.note(`only the first ${items.length} rows; there are more`);
  if (items.length === 0) return session.note(`no differences ${between}`);
  session.note(`${items.length} rows differ ${between}`);
  throw new Exit(1);
}

export async function undo(session: Session, _options: unknown, text: string): Promise<void> {
  const of = parsePosition(text);
  const api = await session.api();
  const inverse = await api.run('commit.inverse', { position: of });
  const { commands } = inverse;
  if (!session.globals.yes && !session.writesNothing) {
    const commit = await api.run('commit.get', { position: of });
    const events = listMember(commit, 'events').map(describeEvent);
    const lines = [
      `to reverse ${of}: ${cellText(commit['by'])} ${events.join(', ')}`,
      ...commands.map((command) => `  ${commandLine(command)}`),
      ...changeLines(listMember(commit, 'changes').map(reverseChange)),
    ];
    await session.out.lines(lines, inverse, of);
    if (commands.some(removesOwner))
      session.note('DELETE of an organisation or a stack removes what was added to it since, too');
    await session.noteEffect('commit.undo', { position: of }, 'all');
    session.note(`nothing was changed; run it: headgate undo ${of} --yes`);
    return;
  }
  const answer = await api.run('commit.undo', { position: of });
  const would = session.globals.dryRun ? 'would be reversed' : 'reversed';
  const lines = commands.map((each) => `  ${commandLine(each)}`);
  await session.out.lines([`commit ${of} ${would}:`, ...lines], answer, of);
}

type UndoCommand = OperationAnswer<'commit.inverse'>['commands'][number];

const removesOwner = ({ method, path }: UndoCommand): boolean =>
  method === 'DELETE' && /^\/(?:organisations|stacks)\/[^/]+$/.test(path);

function commandLine({ method, path, body }: UndoCommand): string {
  return `${cellText(method)} ${cellText(path)}${body === undefined ? '' : `  ${cellText(body)}`}`;
}

const opposite: Readonly<Record<string, string>> = { create: 'remove', remove: 'create' };

/** Returns the inverse of a row's change. */
function reverseChange({ action, fields, ...row }: Resource): Resource {
  const list = (Array.isArray(fields) ? fields : []) as Resource[];
  return {
    ...row,
    action: opposite[String(action)] ?? action,
    fields: list.map(({ field, before, after }) => ({ field, before: after, after: before })),
  };
}
