/** Formats a command's effect as a sentence, followed by tables of changed responses and lowered limits. */

import type { OperationName } from '../../schemas/admin/admin-routes.ts';
import { type Effect, effectSchema } from '../../schemas/admin/effect.ts';
import { hourMs } from '../../schemas/durations.ts';
import { groupDigits } from '../../schemas/grouped.ts';
import { wallClockMs } from '../../shared/runtime/clock.ts';
import type { AdminClient } from '../admin-client/admin-client.ts';
import type { Resource } from '../admin-client/answers.ts';
import { buildRequest } from '../admin-client/call-path.ts';
import { changeLines } from './change-lines.ts';
import { column, type Line, type Renderer, type View } from './render.ts';

type RecordedEffect = NonNullable<Effect['recorded']>;
/** Tolerance in ms when a start counts as an hour ago, because clocks differ and gateways take time to respond. */
const toleranceMs = 120_000;

const requestColumns: View['columns'] = [
  { heading: 'ORGANISATION', cell: ({ organisation }) => organisation ?? 'visitors' },
  column('HOST', 'host'),
  {
    heading: 'MODEL',
    cell: ({ model = '-', operation }) => (operation ? `${model} (${operation})` : model),
    isLong: true,
  },
  column('NOW', 'from'),
  { heading: 'THEN', cell: ({ to }) => to, severity: ({ to }) => (/^\d/.test(String(to)) ? 'bad' : 'good') },
  column('REQUESTS', 'requests'),
  { heading: 'EXAMPLE', cell: ({ examples }) => first(examples) },
];
const limitColumns: View['columns'] = [
  {
    heading: 'ORGANISATION',
    cell: ({ organisation, organisations, visitors }) =>
      visitors ? 'visitors' : (organisation ?? `${organisations} organisations`),
  },
  column('LIMIT', 'what'),
  { heading: 'NOW', cell: ({ from }) => from ?? 'none' },
  column('THEN', 'to'),
  { heading: 'USED AT MOST', cell: ({ peak }) => peak ?? '-' },
];

function first(examples: unknown): unknown {
  return Array.isArray(examples) ? examples[0] : undefined;
}

/** Formats, for example, `12 of 3,400 requests served in the last hour would be answered differently, 7 of them refused`. */
function formatSentence(recorded: RecordedEffect): string {
  const { asked, differ, refused } = recorded;
  if (asked === 0) return `No request was served ${servedPeriod(recorded)}`;
  const part =
    refused === 0
      ? ''
      : refused === differ
        ? ', all of them refused'
        : `, ${groupDigits(refused)} of them refused`;
  const what = `${groupDigits(asked)} requests served ${servedPeriod(recorded)}`;
  return `${groupDigits(differ)} of ${what} would be answered differently${part}`;
}

/** Maximum number of rows shown per table. JSON output contains all rows. */
const rowsMax = 20;

function table(out: Renderer, rows: readonly Resource[], columns: View['columns']): Line[] {
  if (rows.length === 0) return [];
  return ['', ...out.table(rows.slice(0, rowsMax), columns), ...moreLines(rows.length)];
}

function moreLines(count: number): string[] {
  return count > rowsMax ? [`… and ${groupDigits(count - rowsMax)} more; -o json has all`] : [];
}

/** Returns `in the last hour`, or a later start if some gateway's records do not go back an hour because it was too busy. */
function servedPeriod({ since }: RecordedEffect): string {
  const isWholeHour = Date.parse(since) < wallClockMs() - hourMs + toleranceMs;
  return isWholeHour ? 'in the last hour' : `since ${since.slice(11, 16)} UTC`;
}

/** Names the gateways that did not respond, separately for those whose requests are at least known from reports. */
function silentTexts({ gatewaysSilent, gatewaysUnseen: unseen = [] }: RecordedEffect): string[] {
  const reported = gatewaysSilent.filter((name) => !unseen.includes(name));
  return [
    ...(reported.length > 0 ? [`known only from reports: requests of ${reported.join(', ')}`] : []),
    ...(unseen.length > 0 ? [`not known: requests of ${unseen.join(', ')}`] : []),
  ];
}

function recordedLines(out: Renderer, recorded: RecordedEffect): Line[] {
  const { decided, asked, groups } = recorded;
  const part =
    decided < asked ? [`(of ${groupDigits(asked)}, ${groupDigits(decided)} were decided again)`] : [];
  return [formatSentence(recorded), ...part, ...silentTexts(recorded), ...table(out, groups, requestColumns)];
}

function effectLines(out: Renderer, { recorded, limits, changes = [] }: Effect): Line[] {
  return [
    ...(recorded === undefined ? [] : recordedLines(out, recorded)),
    ...(changes.length > 0 ? ['', 'Rows that would differ:', ...rowLines(changes)] : []),
    ...(limits.length > 0 ? ['', 'Limits that would be lower:', ...out.table(limits, limitColumns)] : []),
    ...(recorded === undefined && limits.length === 0 ? ['Nothing would change'] : []),
  ];
}

function rowLines(changes: NonNullable<Effect['changes']>): string[] {
  return [...changeLines(changes.slice(0, rowsMax)), ...moreLines(changes.length)];
}

/** Whether any responses, limits or rows would differ. Rows are reported only if no request was served in the last hour. */
function hasEffect({ recorded, limits, changes = [] }: Effect): boolean {
  return (recorded?.differ ?? 0) + limits.length + changes.length > 0;
}

function effectSentence({ recorded, limits, changes = [] }: Effect): string {
  const texts = [
    ...(recorded !== undefined && (recorded.differ > 0 || recorded.asked === 0)
      ? [formatSentence(recorded)]
      : []),
    ...(recorded === undefined ? [] : silentTexts(recorded)),
    ...(changes.length > 0 ? [`${plural(changes.length, 'row')} would differ`] : []),
    ...(limits.length > 0 ? [`${plural(limits.length, 'limit')} would be lower`] : []),
  ];
  return `${texts.join('; ')} (--effect shows which)`;
}

function plural(count: number, what: string): string {
  return count === 1 ? `1 ${what}` : `${groupDigits(count)} ${what}s`;
}

/** Time in ms to wait for the effect. It exceeds the five seconds that gateways have to send their recorded requests. */
const timeoutMs = 8000;

/** Returns uncoloured notes about a command that is about to be sent, or no notes if it would not change any response. */
export async function effectNotes(
  { api, out }: { readonly api: AdminClient; readonly out: Renderer },
  { name, input }: { readonly name: OperationName; readonly input: object },
  what: 'all' | 'a sentence',
): Promise<string[]> {
  const { method, path, rest } = buildRequest(name, input);
  if (method === 'GET') return [];
  const body = Object.keys(rest).length > 0 && { body: rest };
  const answer = await api.run('effect.get', { method, path, ...body }, timeoutMs);
  const effect = effectSchema.parse(answer);
  if (!hasEffect(effect)) return [];
  if (what === 'a sentence') return [effectSentence(effect)];
  return effectLines(out, effect).map((line) =>
    typeof line === 'string'
      ? line
      : line
          .map((part) => (typeof part === 'string' ? part : part.text))
          .join('')
          .trimEnd(),
  );
}

/** Prints the effect of a command. Returns whether anything would change. */
export async function showEffect(out: Renderer, answer: unknown): Promise<boolean> {
  const effect = effectSchema.parse(answer);
  const isAny = hasEffect(effect);
  await out.lines(effectLines(out, effect), effect, isAny ? 'changed' : 'unchanged');
  return isAny;
}
