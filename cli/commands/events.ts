/** `headgate events` shows the control log as a list or a live tail, or exports its records. */
import { open } from 'node:fs/promises';
import { resolve } from 'node:path';
import type { Command } from 'commander';
import { eventTypeNames } from '../../schemas/events/event-definitions.ts';
import { errorCode } from '../../shared/runtime/error-code.ts';
import { listMember } from '../admin-client/answers.ts';
import { changeLines } from '../terminal/change-lines.ts';
import { CliError, usageError } from '../terminal/errors.ts';
import { type Io, writePiece } from '../terminal/io.ts';
import { parseCount, parsePosition } from '../terminal/options.ts';
import type { Session } from '../terminal/session.ts';
import { cellText } from '../terminal/text.ts';
import { noun } from '../terminal/verbs.ts';
import { describeEvent, type EventQuery, eventView, readAllEvents } from './event-list.ts';
import { choiceField, customVerb, flagField, parsedField, sinceField, textField } from './operation-verbs.ts';
import type { TailCommandOptions } from './tail.ts';

const listVerb = customVerb(
  'event.list',
  {
    verb: ['list', 'list events', 'headgate events list --org acme --since 1d --limit 20'],
    options: {
      from: parsedField('--from <position>', 'first position', parsePosition),
      to: parsedField('--to <position>', 'last position', parsePosition),
      since: sinceField,
      order: flagField('--newest', 'newest first', 'desc' as const),
      type: choiceField('--type <type>', 'only events of this type', eventTypeNames),
      organisation: textField('--org <id>', 'only events about this organisation'),
      key: textField('--key <id>', 'only events about this key'),
      stack: textField('--stack <id>', 'only events about this stack'),
      node: textField('--node <id>', 'only events about this node'),
      actor: textField('--actor <name>', 'only commits by this author'),
      text: textField(
        '--text <text>',
        'only events whose data, author, reason or command contains this text',
      ),
      limit: parsedField(
        '--limit <n>',
        'maximum number of events; the newest ones, unless --from is given',
        parseCount,
      ),
    },
  },
  listEvents,
);

async function listEvents(session: Session, query: EventQuery): Promise<void> {
  const { from, to, limit } = query;
  if (from !== undefined && to !== undefined && from > to)
    throw usageError(`--from ${from} is later than --to ${to}`, 'headgate help events list');
  const isNewest = limit !== undefined && from === undefined;
  const found = await readAllEvents(await session.api(), isNewest ? { ...query, order: 'desc' } : query);
  await session.out.list(found, eventView);
  const { historyFrom, historyNext: next } = found;
  if (historyFrom === undefined) return;
  const where = `searched from position ${cellText(historyFrom)} on; earlier events are only in the log`;
  session.note(next === undefined ? where : `${where}; to search it, ${cellText(next)}`);
}

export function registerEvents(program: Command, io: Io): void {
  const events = noun(program, io, 'events', 'the control log', 'past', 'headgate events tail');
  listVerb(events);
  events
    .verb('show <position>', 'show one commit, and how it changed each row', 'headgate events show 18240')
    .operand('position', parsePosition)
    .action(showCommit);
  events
    .verb('tail', 'follow new events', 'headgate events tail', 'headgate events tail --from 1 --until-end')
    .option('--from <position>', 'first position; by default only new events are shown', parsePosition)
    .choice('--type <type>', 'only events of this type', eventTypeNames)
    .option('--until-end', 'stop at the end of the log')
    .action<TailCommandOptions>(async (session, options) => {
      const { tail } = await import('./tail.ts');
      await tail(session, options);
    });
  events
    .verb('export', 'write the raw log, one record per line', 'headgate events export --out log.jsonl')
    .option('--from <position>', 'first position', parsePosition)
    .option('--out <file>', 'write to a new file (mode 0600) instead of stdout')
    .action<{ readonly from?: number; readonly out?: string }>(exportLog);
}

async function showCommit(session: Session, _options: unknown, named: string): Promise<void> {
  const answer = await (await session.api()).run('commit.get', { position: parsePosition(named) });
  const { at, by, why, command } = answer;
  const lines = [
    `${cellText(answer['position'])}  ${cellText(at)}  by ${cellText(by)}${why === undefined ? '' : ` (${cellText(why)})`}`,
    `command ${cellText(command)}`,
    ...listMember(answer, 'events').map((event) => `${cellText(event['type'])}  ${describeEvent(event)}`),
    ...changeLines(listMember(answer, 'changes')),
  ];
  await session.out.lines(lines, answer, answer['position']);
}

async function exportLog(
  session: Session,
  { from, out }: { readonly from?: number; readonly out?: string },
): Promise<void> {
  const { pieces } = await (await session.api()).open('log.export', { from }, 120_000);
  if (out === undefined) {
    for await (const piece of pieces) await writePiece(session.io.stdout, piece);
    return;
  }
  if (session.globals.dryRun) {
    let bytes = 0;
    for await (const piece of pieces) bytes += Buffer.byteLength(piece);
    session.note(`${bytes} bytes would be written to ${out}`);
    return;
  }
  const target = await open(resolve(session.io.cwd, out), 'wx', 0o600).catch((error: unknown) => {
    throw new CliError(`cannot create ${out}`, {
      type: 'InvalidFile',
      why: errorCode(error) ?? '',
      next: 'choose another file with --out',
      cause: error,
    });
  });
  try {
    for await (const piece of pieces) await target.writeFile(piece);
    await target.sync();
  } finally {
    await target.close();
  }
  session.note(`written to ${out}`);
}
