/** `headgate apply`, `diff`, `export` and `validate` work on a fleet file. Only `validate` does not need a control plane. */
import type { Command } from 'commander';
import type { OperationAnswer, OperationInput } from '../../schemas/admin/admin.ts';
import type { Fleet } from '../../schemas/events/fleet.ts';
import { overweightPairs, overweightWarnings } from '../../schemas/events/overweight.ts';
import { printable } from '../../schemas/printable.ts';
import { changeSigns, fieldLines } from '../terminal/change-lines.ts';
import { confirmDestructive } from '../terminal/confirm.ts';
import { CliError, Exit, toCliError, usageError } from '../terminal/errors.ts';
import type { Io } from '../terminal/io.ts';
import { parseMomentOption, parsePosition } from '../terminal/options.ts';
import type { Session } from '../terminal/session.ts';
import { readInput } from '../terminal/settings.ts';
import { groups, verb } from '../terminal/verbs.ts';
import { noteWarnings } from './answers.ts';
import { diffMoments, undo } from './past.ts';
import { withStage } from './stage-options.ts';
import { isStaged, showChange } from './staged-change.ts';

export interface FleetFileOptions {
  readonly file: string;
  readonly prune?: boolean;
}
interface ApplyOptions extends FleetFileOptions {
  readonly atomic?: boolean;
}

export function registerFleet(program: Command, io: Io): void {
  const fileFlag = ['-f, --file <file>', 'fleet file, or - for stdin'] as const;
  const pruneFlag = ['--prune', 'also remove resources that the file does not contain'] as const;
  withStage(
    verb(program, io, 'apply', 'change the fleet to match a fleet file', [
      'headgate apply -f fleet.yaml',
      'headgate apply -f fleet.yaml --prune --yes --if-at 18240',
      'headgate apply -f fleet.yaml --stage --waves one,10%,50%,all --hold 5m',
    ])
      .required(...fileFlag)
      .option(...pruneFlag)
      .option('--atomic', 'fail if the changes do not fit in one commit, instead of writing several'),
  ).action<ApplyOptions>(apply);
  verb(
    program,
    io,
    'diff',
    'show what apply would change, or what changed between two moments; exit 1 if anything did',
    ['headgate diff -f fleet.yaml', 'headgate diff --from 18000 --to 10m'],
  )
    .option(...fileFlag)
    .option(...pruneFlag)
    .option(
      '--from <moment>',
      'compare the state at this position or time, or some time ago, such as 10m',
      parseMomentOption,
    )
    .option('--to <moment>', 'compare with the state at this moment; now by default', parseMomentOption)
    .action<DiffOptions>(async (session, { file, prune, from, to }) => {
      if (file !== undefined && from === undefined && to === undefined)
        return diff(session, { file, ...(prune !== undefined && { prune }) });
      if (file !== undefined || from === undefined)
        throw usageError('diff takes a fleet file (-f), or a moment (--from)', 'headgate help diff');
      await diffMoments(session, from, to);
    });
  verb(program, io, 'undo <position>', 'show the command that reverses a commit; with --yes, run it', [
    'headgate undo 18240',
    'headgate undo 18240 --yes --why mistake',
  ])
    .operand('position', parsePosition)
    .action(undo);
  verb(program, io, 'export', 'write the current fleet as a fleet file', [
    'headgate export > fleet.yaml',
  ]).action(async (session) => {
    const fleet = await (await session.api()).run('fleet.get');
    const { format } = session.defaultFormat('yaml');
    await session.defaultFormat(format === 'table' || format === 'name' ? 'yaml' : format).document(fleet);
  });
  verb(program, io, 'validate', 'check a fleet file without a control plane', [
    'headgate validate -f fleet.yaml',
  ])
    .required(...fileFlag)
    .action<FleetFileOptions>(async (session, { file }) => {
      const warnings = overweightWarnings(overweightPairs(await readFleet(session, file)));
      noteWarnings(session, { warnings });
      const found = warnings.length > 0 && { warnings };
      await session.out.lines([`${file} is valid`], { file, valid: true, ...found }, file);
    });
  for (const command of program.commands) {
    if (['apply', 'diff', 'undo', 'export', 'validate'].includes(command.name()))
      command.helpGroup(groups.deployed);
  }
}

/** Reads and parses the file. If it is invalid, prints all its faults to stderr and throws Exit with code 2. */
export async function readFleet(session: Session, file: string): Promise<Fleet> {
  const text = await readInput(session.io, file);
  const { formatFault, parseFleet } = await import('../terminal/fleet-file.ts');
  const read = parseFleet(text, file === '-' ? 'stdin' : file);
  if ('fleet' in read) return read.fleet;
  for (const fault of read.faults) session.io.stderr.write(`${printable(formatFault(fault))}\n`);
  throw new Exit(2);
}

interface DiffOptions extends Partial<FleetFileOptions> {
  readonly from?: string;
  readonly to?: string;
}

async function apply(session: Session, { file, prune, atomic }: ApplyOptions): Promise<void> {
  const fleet = await readFleet(session, file);
  const api = await session.api();
  const body = { fleet, ...(prune && { prune }) };
  // Ask only with --prune, because without it no resource is removed.
  if (prune && !session.globals.yes && !session.writesNothing) {
    const { changes } = await api.run('fleet.diff', body);
    const removed = changes.filter(({ action }) => action === 'remove');
    for (const { kind, id } of removed) session.note(`- ${kind} ${id}`);
    if (removed.length > 0)
      await confirmDestructive(session, 'remove', `remove ${removed.length} resources`, {
        name: 'fleet.apply',
        input: body,
      });
  }
  const answer = atomic ? await api.run('fleet.apply', body) : await applyInParts(session, body);
  noteWarnings(session, answer);
  if (isStaged(answer)) return showChange(session, answer);
  const { changes, commits } = answer;
  if (changes.length === 0) return session.out.lines(['unchanged'], answer, 'unchanged');
  const done = { create: 'created', change: 'changed', remove: 'removed' } as const;
  const would = session.globals.dryRun ? 'would be ' : '';
  const lines = changes.map(
    ({ action, kind, id, fields }) => `${kind} ${id} ${would}${done[action]}${formatFields(fields)}`,
  );
  await session.out.lines(lines, answer, changes.map(({ id }) => id).join(' '));
  if (commits !== undefined) session.note(`it would be ${commits} commits`);
  if (!session.globals.dryRun) session.note(`applied at position ${answer.position}`);
}

type ApplyAnswer = OperationAnswer<'fleet.apply'>;

/** Applies the file in several calls. Each compares the file with the current state, so an interrupted apply can continue. */
async function applyInParts(session: Session, body: OperationInput<'fleet.apply'>): Promise<ApplyAnswer> {
  const first = await (await session.apiInParts('first')).run('fleet.apply', body);
  if (session.writesNothing || isStaged(first)) return first;
  const api = await session.apiInParts('next');
  const changes = [...first.changes];
  const warnings = new Set(first.warnings);
  let last = first;
  // If this call repeated an earlier command, continue, because that command may have applied only part of the file.
  while (last.remaining !== undefined || (last.repeated && session.globals.commandId === undefined)) {
    const { remaining = 0, position: at } = last;
    session.note(`applied ${changes.length} of ${changes.length + remaining} changes, at position ${at}`);
    try {
      last = await api.run('fleet.apply', body);
    } catch (error) {
      session.note('the rest was not applied; run the same command again to continue');
      throw error;
    }
    changes.push(...last.changes);
    for (const text of last.warnings ?? []) warnings.add(text);
  }
  if (last === first || changes.length === 0) return last;
  return { changes, position: last.position, ...(warnings.size > 0 && { warnings: [...warnings] }) };
}

function formatFields(fields: readonly string[] = []): string {
  return fields.length > 0 ? ` (${fields.join(', ')})` : '';
}

/** Exits with 0 if nothing would change, with 1 if something would, and with 2 or more after an error. */
async function diff(session: Session, { file, prune }: FleetFileOptions): Promise<void> {
  let answer: OperationAnswer<'fleet.diff'>;
  try {
    const fleet = await readFleet(session, file);
    answer = await (await session.api()).run('fleet.diff', { fleet, ...(prune && { prune }) });
  } catch (error) {
    throw avoidExitOne(error);
  }
  const { changes, position: at } = answer;
  const lines = changes.flatMap(({ action, kind, id, fields, values }) => [
    `${changeSigns[action] ?? '?'} ${kind} ${id}${formatFields(fields)}`,
    ...fieldLines(values),
  ]);
  await session.out.lines(lines, answer, changes.map(({ id }) => id).join(' '));
  if (changes.length === 0) return session.note(`no changes at position ${at}`);
  session.note(`compared at position ${at}; apply with --if-at ${at} to apply exactly this`);
  throw new Exit(1);
}

export function avoidExitOne(error: unknown): unknown {
  if (error instanceof Exit) return error;
  const failure = toCliError(error);
  const { type, message, why, next, exitCode } = failure;
  if (exitCode !== 1) return failure;
  return new CliError(message, { type, exitCode: 2, why, cause: error, ...(next !== undefined && { next }) });
}
