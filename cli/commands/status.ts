/** `headgate status` shows what is out of sync, down or refused, each with the next step. */
import { type Command, Option } from 'commander';
import type { GatewayStatus, LiveNodeResource, OperationAnswer } from '../../schemas/admin/admin.ts';
import { groupDigits } from '../../schemas/grouped.ts';
import type { AdminClient } from '../admin-client/admin-client.ts';
import { AdminError } from '../admin-client/admin-error.ts';
import type { Io } from '../terminal/io.ts';
import type { Line } from '../terminal/render.ts';
import type { Session } from '../terminal/session.ts';
import { groups, verb } from '../terminal/verbs.ts';

type Replica = OperationAnswer<'status.get'>;
type ActivityAnswer = OperationAnswer<'activity.get'>;
type Findings = OperationAnswer<'doctor.get'>;
/** A response, or the error that says why it could not be read, such as missing rights. */
type AnswerOrError<Answer> = Answer | AdminError;

const labelWidth = 10;
/** Maximum number of gateways, nodes or refusals that are listed. */
const shownMax = 5;
/** Time in ms to wait for the gateways to report refusals. A gateway that does not respond in time is left out. */
const activityMs = 5000;

export function registerStatus(program: Command, io: Io): void {
  const status = verb(
    program,
    io,
    'status',
    'show whether gateways are in sync and nodes are up, and which requests are refused',
    ['headgate status', 'headgate status --digests'],
  );
  status.command
    .addOption(new Option('--digests', 'also show the digest of each table'))
    .helpGroup(groups.healthy);
  status.action<{ readonly digests?: boolean }>(show);
}

async function show(session: Session, { digests }: { readonly digests?: boolean }): Promise<void> {
  const api = await session.api();
  const replica = await api.run('status.get');
  const lines = session.out.format === 'table' ? await statusLines(session, api, replica) : [];
  await session.out.lines([...lines, ...(digests ? digestLines(replica) : [])], replica, replica.log);
}

async function statusLines(session: Session, api: AdminClient, replica: Replica): Promise<Line[]> {
  const log = [
    labelled(
      'log',
      `${replica.log ?? 'none yet'}, position ${replica.position}, requested from ${replica.replica}`,
    ),
    ...(replica.halted === undefined
      ? []
      : [bad('halted', replica.halted), next('headgate doctor --only log')]),
  ];
  // The remaining sections exist only for the present, so --at shows only the log.
  if (session.globals.at !== undefined) return log;
  const [gateways, nodes, refused, findings] = await Promise.all([
    answerOrError(api.run('gateway.list')),
    answerOrError(api.all('node.list').then((items) => ({ items }))),
    answerOrError(api.run('activity.get', {}, activityMs)),
    answerOrError(api.run('doctor.get')),
  ]);
  return [
    ...log,
    ...partLines('gateways', gateways, ({ items }) => [
      ...gatewayLines(items, replica.position),
      ...openChange(items).map((text) => labelled('change', text)),
    ]),
    ...partLines('nodes', nodes, ({ items }) => nodeLines(items)),
    ...partLines('refused', refused, refusedLines),
    ...partLines('doctor', findings, doctorLines),
  ];
}

async function answerOrError<Answer>(asked: Promise<Answer>): Promise<AnswerOrError<Answer>> {
  try {
    return await asked;
  } catch (error) {
    if (error instanceof AdminError && error.type !== 'Interrupted') return error;
    throw error;
  }
}

function partLines<Answer extends object>(
  label: string,
  part: AnswerOrError<Answer>,
  show: (answer: Answer) => Line[],
): Line[] {
  if (part instanceof AdminError) return [labelled(label, `not known: ${part.message}`)];
  return show(part);
}

function gatewayLines(gateways: readonly GatewayStatus[], position: number): Line[] {
  if (gateways.length === 0)
    return [bad('gateways', 'none has reported, so no request is served'), next('headgate gateway --help')];
  const behind = gateways.filter(({ state }) => state !== 'SYNCED');
  const inSync = gateways.length - behind.length;
  if (behind.length === 0)
    return [good('gateways', `${ratio(inSync, gateways.length)} in sync at position ${position}`)];
  return [
    bad('gateways', `${ratio(inSync, gateways.length)} in sync`),
    ...some(behind, ({ name, state, applied, halted, conflict }) => {
      const why = halted ?? conflict;
      return `${name}  ${state} at position ${applied}${why === undefined ? '' : `: ${why}`}`;
    }),
    next('headgate doctor --only gateways'),
  ];
}

/** Says at which gateways the open change is in force. Returns nothing if it is in force at none or all of them. */
export function openChange(gateways: readonly GatewayStatus[]): string[] {
  const reached = gateways.filter(({ change }) => change !== undefined);
  if (reached.length === 0 || reached.length === gateways.length) return [];
  const where =
    reached.length > shownMax
      ? `${ratio(reached.length, gateways.length)} gateways`
      : reached.map(({ name }) => name).join(', ');
  return [`change ${reached[0]?.change} is in force at ${where} only`];
}

function nodeLines(nodes: readonly LiveNodeResource[]): Line[] {
  const drained = nodes.filter((node) => node.drained);
  const down = nodes.filter((node) => !node.up && !node.drained);
  const up = nodes.length - drained.length - down.length;
  const text = `${ratio(up, nodes.length)} up${drained.length > 0 ? `, ${groupDigits(drained.length)} drained` : ''}`;
  if (nodes.length === 0)
    return [labelled('nodes', 'none is registered'), next('headgate help node register')];
  if (down.length === 0) return [good('nodes', text)];
  return [
    bad('nodes', `${text}, ${groupDigits(down.length)} down`),
    ...some(down, ({ id, reason }) => `${id}  ${reason ?? 'no report yet'}`),
    next('headgate node list --state down'),
  ];
}

function refusedLines({ refusals, unanswered, partial }: ActivityAnswer): Line[] {
  const total = refusals.reduce((sum, { requests }) => sum + requests, 0);
  const missing = [
    ...(unanswered.length > 0 ? [`refusals by ${unanswered.join(', ')} are not known`] : []),
    ...(partial === true ? ['there are more than gateways report separately'] : []),
  ];
  const of = missing.length > 0 ? `; ${missing.join(', ')}` : '';
  if (refusals.length === 0) return [labelled('refused', `no request in the last hour${of}`)];
  return [
    labelled(
      'refused',
      `${groupDigits(total)} ${total === 1 ? 'request' : 'requests'} in the last hour${of}`,
    ),
    ...some(
      refusals,
      ({ requests, status, type, organisation }) =>
        `${groupDigits(requests)} × ${status} ${type}${organisation === undefined ? '' : ` of ${organisation}`}`,
    ),
    next(`headgate explain --request ${refusals[0]?.lastRequest ?? ''}`),
  ];
}

function doctorLines({ warn, fail }: Findings): Line[] {
  if (warn + fail === 0) return [good('doctor', 'finds nothing')];
  const counted = [
    ...(fail > 0 ? [`${groupDigits(fail)} ${fail === 1 ? 'failure' : 'failures'}`] : []),
    ...(warn > 0 ? [`${groupDigits(warn)} ${warn === 1 ? 'warning' : 'warnings'}`] : []),
  ];
  const text = `finds ${counted.join(' and ')}`;
  return [fail > 0 ? bad('doctor', text) : labelled('doctor', text), next('headgate doctor')];
}

function digestLines({ digest, digests, foldVersion, signers, signer, skipped }: Replica): Line[] {
  const tables = Object.entries(digests);
  const width = Math.max(labelWidth, ...tables.map(([table]) => table.length));
  const line = (name: string, text: string): string => `${name.padEnd(width)}  ${text}`;
  return [
    '',
    line('digest', digest),
    ...tables.map(([table, text]) => line(table, text)),
    line('fold', `version ${foldVersion}, ${groupDigits(skipped)} records skipped`),
    ...(signers.length === 0 ? [] : [line('signers', signers.join(', '))]),
    ...(signer === undefined ? [] : [line('signs with', signer)]),
  ];
}

const ratio = (some: number, all: number): string =>
  some === all ? `all ${groupDigits(all)}` : `${groupDigits(some)} of ${groupDigits(all)}`;
const labelled = (label: string, text: string): Line => [label.padEnd(labelWidth), text];
const good = (label: string, text: string): Line => [label.padEnd(labelWidth), { text, style: 'good' }];
const bad = (label: string, text: string): Line => [label.padEnd(labelWidth), { text, style: 'bad' }];
const next = (command: string): Line => `${' '.repeat(labelWidth)}next  ${command}`;

function some<Item>(items: readonly Item[], text: (item: Item) => string): Line[] {
  const more = items.length - shownMax;
  const lines = items.slice(0, shownMax).map((item) => `${' '.repeat(labelWidth)}${text(item)}`);
  return more > 0 ? [...lines, `${' '.repeat(labelWidth)}and ${groupDigits(more)} more`] : lines;
}
