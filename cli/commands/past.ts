/** `diff --from --to` and `undo`: two moments compared, and a commit taken back. */
import { type Resource, resourcesIn } from '../../admin-client/answers.ts';
import { Exit } from '../terminal/errors.ts';
import { position } from '../terminal/options.ts';
import type { Session } from '../terminal/session.ts';
import { cellText, printableJson } from '../terminal/text.ts';
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
  const commands = resourcesIn(inverse, 'commands');
  if (!session.globals.yes && !session.globals.dryRun) {
    const commit = await api.get(`/events/${of}`);
    const types = resourcesIn(commit, 'events').map(({ type }) => cellText(type));
    const lines = [
      `to take back ${of}  ${types.join(', ')}  by ${cellText(commit['by'])}:`,
      ...commands.map((command) => `  ${commandLine(command)}`),
      ...changeLines(resourcesIn(commit, 'changes').map(reversed)),
    ];
    await session.out.lines(lines, inverse, of);
    session.note(`nothing was changed; run it: headgate undo ${of} --yes`);
    return;
  }
  const done = session.globals.dryRun ? 'would be taken back' : 'taken back';
  let answer: Resource = {};
  for (const [index, command] of commands.entries())
    try {
      answer = (await api.write(
        command['method'] as 'POST',
        String(command['path']),
        command['body'],
      )) as Resource;
    } catch (error) {
      if (index > 0)
        session.note(`of ${commands.length} commands the first ${index} were run; the next one failed`);
      throw error;
    }
  await session.out.lines(
    [`commit ${of} ${done}:`, ...commands.map((each) => `  ${commandLine(each)}`)],
    answer,
    of,
  );
}

function commandLine({ method, path, body }: Resource): string {
  return `${cellText(method)} ${cellText(path)}${body === undefined ? '' : ` ${printableJson(body)}`}`;
}

const opposite: Readonly<Record<string, string>> = { create: 'remove', remove: 'create' };

/** What taking a change back does to its row. */
function reversed({ action, fields, ...row }: Resource): Resource {
  const list = (Array.isArray(fields) ? fields : []) as Resource[];
  return {
    ...row,
    action: opposite[String(action)] ?? action,
    fields: list.map(({ field, before, after }) => ({ field, before: after, after: before })),
  };
}
