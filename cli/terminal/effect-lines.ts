/** The effect of a command as lines: a sentence for each part, and a table of who would be answered otherwise. */
import type { AdminClient } from '../../admin-client/admin-client.ts';
import type { Resource } from '../../admin-client/answers.ts';
import { requestOf } from '../../admin-client/call-path.ts';
import type { OperationName } from '../../schemas/admin-routes.ts';
import { hourMs } from '../../schemas/durations.ts';
import { type Effect, effectSchema } from '../../schemas/effect.ts';
import { grouped } from '../../schemas/grouped.ts';
import { wallClockMs } from '../../shared/runtime/clock.ts';
import { column, type Line, type Renderer, type View } from './render.ts';

type Recorded = NonNullable<Effect['recorded']>;
/** For the clocks of others, and while they answer. */
const toleranceMs = 120_000;

const answers: View['columns'] = [
  {
    heading: 'ORGANISATION',
    cell: ({ organisation, count, examples }) => organisation ?? whoOf(count, examples),
  },
  column('HOST', 'host'),
  {
    heading: 'MODEL',
    cell: ({ model = '-', operation }) => (operation ? `${model} (${operation})` : model),
    isLong: true,
  },
  column('NOW', 'from'),
  { heading: 'THEN', cell: ({ to }) => to, severity: ({ to }) => (/^\d/.test(String(to)) ? 'bad' : 'good') },
];
const ofRequests: View['columns'] = [
  ...answers,
  column('REQUESTS', 'requests'),
  { heading: 'EXAMPLE', cell: ({ examples }) => first(examples) },
];
const ofLimits: View['columns'] = [
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

function whoOf(count: unknown, examples: unknown): string {
  return count === 1
    ? String(first(examples))
    : `${String(count)}: ${Array.isArray(examples) ? examples.join(', ') : ''}`;
}

/** `12 of 3,400 …, of which 7 would be refused`. */
function sentence(differ: number, of: number, what: string, refused: number): string {
  const part =
    refused === 0
      ? ''
      : refused === differ
        ? ', all of them refused'
        : `, ${grouped(refused)} of them refused`;
  return `${grouped(differ)} of ${grouped(of)} ${what} would be answered otherwise${part}`;
}

const combinations = 'combinations of organisation, host and model';

/** At most these rows of a table; JSON has all. */
const rowsMax = 20;

function table(out: Renderer, rows: readonly Resource[], columns: View['columns']): Line[] {
  const more = rows.length > rowsMax ? [`… and ${grouped(rows.length - rowsMax)} more; -o json has all`] : [];
  return rows.length === 0 ? [] : ['', ...out.table(rows.slice(0, rowsMax), columns), ...more];
}

/** Since when, where gateways had more requests than they read for it. */
function whatWasRecorded({ since }: Recorded): string {
  const isWholeHour = Date.parse(since) < wallClockMs() - hourMs + toleranceMs;
  return isWholeHour ? 'requests of the last hour' : `requests since ${since.slice(11, 16)} UTC`;
}

function recordedLines(out: Renderer, recorded: Recorded): Line[] {
  const { decided, asked, differ, refused, groups, gatewaysSilent: silent } = recorded;
  const part = decided < asked ? [`(of ${grouped(asked)}, ${grouped(decided)} were decided again)`] : [];
  return [
    sentence(differ, asked, whatWasRecorded(recorded), refused),
    ...part,
    ...(silent.length > 0 ? [`Not known: requests of ${silent.join(', ')}, which did not answer`] : []),
    ...table(out, groups, ofRequests),
    ...(groups.length > 0 ? [''] : []),
  ];
}

function effectLines(out: Renderer, { recorded, static: all, limits }: Effect): Line[] {
  return [
    ...(recorded === undefined ? [] : recordedLines(out, recorded)),
    sentence(all.differ, all.combinations, combinations, all.refused),
    ...table(out, all.groups, answers),
    ...(limits.length > 0 ? ['', 'Limits that would be lower:', ...out.table(limits, ofLimits)] : []),
  ];
}

/** Whether anything would be otherwise. */
function hasEffect({ recorded, static: all, limits }: Effect): boolean {
  return all.differ > 0 || limits.length > 0 || (recorded?.differ ?? 0) > 0;
}

/** Of requests where some were decided again, otherwise of combinations. */
function effectSentence({ recorded, static: all, limits }: Effect): string {
  const lower = limits.length === 1 ? '1 limit would be lower' : `${limits.length} limits would be lower`;
  const isOfRequests = recorded !== undefined && recorded.differ > 0;
  const { differ, refused } = isOfRequests ? recorded : all;
  const of = isOfRequests ? recorded.asked : all.combinations;
  const what = isOfRequests ? whatWasRecorded(recorded) : combinations;
  const silent = recorded?.gatewaysSilent.length
    ? `; not known: requests of ${recorded.gatewaysSilent.join(', ')}`
    : '';
  return `${differ === 0 ? lower : sentence(differ, of, what, refused)}${silent} (--effect shows which)`;
}

/** For how long a command waits for its effect: gateways have five seconds for what they recorded. */
const timeoutMs = 8000;

/** Of a command that is about to be sent, without colour; nothing where no answer would change. */
export async function effectNotes(
  { api, out }: { readonly api: AdminClient; readonly out: Renderer },
  { name, input }: { readonly name: OperationName; readonly input: object },
  what: 'all' | 'a sentence',
): Promise<string[]> {
  const { method, path, rest } = requestOf(name, input);
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

/** Prints it. Returns whether anything would be otherwise. */
export async function showEffect(out: Renderer, answer: unknown): Promise<boolean> {
  const effect = effectSchema.parse(answer);
  const isAny = hasEffect(effect);
  await out.lines(effectLines(out, effect), effect, isAny ? 'changed' : 'unchanged');
  return isAny;
}
