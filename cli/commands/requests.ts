/** `headgate requests`: what happens to requests at all gateways, as a list, followed live, or summed up. */
import type { Command } from 'commander';
import type { AdminClient } from '../../admin-client/admin-client.ts';
import type { Resource } from '../../admin-client/answers.ts';
import type { InputOf } from '../../schemas/admin.ts';
import { refusalKinds } from '../../schemas/refusals.ts';
import {
  type RequestList,
  type RequestRow,
  requestsPerPage,
  requestsPerPageMax,
  type StatsKind,
  statsKinds,
  verdictSchema,
} from '../../schemas/requests.ts';
import type { Io } from '../terminal/io.ts';
import { count, countIn, moment } from '../terminal/options.ts';
import { type Column, column, longColumn, type View } from '../terminal/render.ts';
import type { Session } from '../terminal/session.ts';
import { cellText } from '../terminal/text.ts';
import { type Noun, noun, type Verb } from '../terminal/verbs.ts';

export interface FilterOptions {
  readonly outcome?: RequestRow['verdict'];
  readonly type?: keyof typeof refusalKinds;
  readonly model?: string;
  readonly org?: string;
  readonly key?: string;
  readonly node?: string;
  readonly gateway?: string;
  readonly slowerThan?: string;
  readonly since?: string;
}

interface ListOptions extends FilterOptions {
  readonly request?: string;
  readonly limit?: number;
}

export interface TailOptions extends FilterOptions {
  readonly last?: number;
}

type Filter = Omit<InputOf<'request.tail'>, 'limit'>;

export function filterOf({ org, slowerThan, ...same }: FilterOptions): Filter {
  const { outcome, type, model, key, node, gateway, since } = same;
  return {
    ...(outcome !== undefined && { outcome }),
    ...(type !== undefined && { type }),
    ...(model !== undefined && { model }),
    ...(org !== undefined && { organisation: org }),
    ...(key !== undefined && { key }),
    ...(node !== undefined && { node }),
    ...(gateway !== undefined && { gateway }),
    ...(slowerThan !== undefined && { 'slower-than': slowerThan }),
    ...(since !== undefined && { since }),
  };
}

function withFilters(verb: Verb): Verb {
  return verb
    .choice('--outcome <verdict>', 'only these', verdictSchema.options)
    .choice('--type <type>', 'only refusals of this type', Object.keys(refusalKinds))
    .option('--model <id>', 'only of this model')
    .option('--org <id>', 'only of this organisation; members must give it')
    .option('--key <id>', 'only with this key')
    .option('--node <id>', 'only served by this node; for operators')
    .option('--gateway <name>', 'only at this gateway')
    .option('--slower-than <duration>', 'only those that took longer, such as 500ms or 2s')
    .option('--since <time>', 'a time, or a time ago such as 10m or 1h', moment);
}

/** What served it, or why nothing did. */
export function verdictText({ verdict, node, type, endedBy }: Partial<RequestRow>): string {
  if (verdict === 'refused') return type ?? 'refused';
  if (verdict === 'ended') return `ended by ${endedBy ?? 'a node'}`;
  return node === undefined ? 'served' : `served by ${node}`;
}

/** Milliseconds as people read them. */
function msText(ms: unknown): string {
  if (typeof ms !== 'number') return '-';
  return ms < 1000 ? `${Math.round(ms)}ms` : `${(ms / 1000).toFixed(1)}s`;
}

/** `12→340`; `-` where nothing was counted. */
function tokensText({ promptTokens, completionTokens }: Partial<RequestRow>): string {
  return promptTokens === undefined ? '-' : `${promptTokens}→${completionTokens ?? 0}`;
}

function timeText(at: unknown): string {
  return String(at).slice(11, 23);
}

const long = (heading: string, cell: (row: Partial<RequestRow>) => unknown): Column => ({
  ...{ heading, cell: (row: Resource) => cell(row as Partial<RequestRow>), isLong: true },
});

const rowColumns: readonly Column[] = [
  { heading: 'TIME', cell: ({ at }) => timeText(at) },
  long('KEY', ({ keyName, key, organisation }) => [organisation, keyName ?? key].filter(Boolean).join(' ')),
  longColumn('MODEL', 'model'),
  long('VERDICT', verdictText),
  column('STATUS', 'status'),
  { heading: 'TOKENS', cell: (row) => tokensText(row as Partial<RequestRow>) },
  { heading: 'FIRST', cell: ({ firstTokenMs }) => msText(firstTokenMs) },
  { heading: 'TOOK', cell: ({ durationMs }) => msText(durationMs) },
  longColumn('GATEWAY', 'gateway'),
  column('REQUEST', 'request'),
];
const rowView: View = { columns: rowColumns, name: ({ request }) => request };

/** One line of a tail. */
export function lineOf(row: Partial<RequestRow>): string {
  const { at, organisation, keyName, key, model, status, firstTokenMs, durationMs, gateway, request } = row;
  const caller = [organisation, keyName ?? key].filter((each) => each !== undefined).join(' ');
  const parts = [
    ...[timeText(at), status, verdictText(row), caller, model, tokensText(row)],
    ...[`first ${msText(firstTokenMs)}`, `took ${msText(durationMs)}`, gateway, request],
  ];
  return parts.map(cellText).join('  ');
}

export function noteSilent(session: Session, silent: readonly unknown[]): void {
  if (silent.length === 0) return;
  session.note(
    `without ${silent.map(cellText).join(', ')}: no answer, or no decisions kept there (--decisions off)`,
  );
}

async function list(session: Session, { limit = requestsPerPage, request, ...filters }: ListOptions) {
  const api = await session.api();
  const given = { ...filterOf(filters), ...(request !== undefined && { request }) };
  const answer = await pagesOf(api, given, limit);
  await session.out.list(answer as unknown as Resource, rowView);
  noteSilent(session, answer.silent);
}

/** Read in as many pages as needed. */
async function pagesOf(api: AdminClient, filter: Filter, limit: number): Promise<RequestList> {
  const items: RequestRow[] = [];
  const silent = new Set<string>();
  let next: string | undefined;
  do {
    const page = { limit: Math.min(limit - items.length, requestsPerPageMax), ...(next && { next }) };
    const answer = await api.run('request.list', { ...filter, ...page });
    items.push(...answer.items);
    for (const each of answer.silent) silent.add(each);
    next = answer.next;
  } while (next !== undefined && items.length < limit);
  return { items, ...(next !== undefined && { next }), silent: [...silent] };
}

interface StatsOptions extends FilterOptions {
  readonly by?: StatsKind;
}

const statsView = (by: StatsKind): View => ({
  columns: [
    { heading: by.toUpperCase(), cell: (row) => row['by'], isLong: true },
    column('REQUESTS', 'requests'),
    column('SERVED', 'served'),
    column('REFUSED', 'refused'),
    column('ENDED', 'ended'),
    column('PROMPT', 'promptTokens'),
    column('COMPLETION', 'completionTokens'),
    { heading: 'FIRST-P50', cell: (row) => msText(row['firstTokenMsP50']) },
    { heading: 'FIRST-P95', cell: (row) => msText(row['firstTokenMsP95']) },
  ],
  name: (row) => row['by'],
});

async function stats(session: Session, { by = 'model', since = '1h', ...filters }: StatsOptions) {
  const api = await session.api();
  const answer = await api.run('request.stats', { ...filterOf(filters), by, since }, statsTimeoutMs);
  await session.out.list(answer as unknown as Resource, statsView(by));
  noteSilent(session, answer.silent);
  if (answer.partial)
    session.note(
      'not all are counted: there are too many, or a gateway keeps only some of the completed ones',
    );
}

const statsTimeoutMs = 60_000;

export function registerRequests(program: Command, io: Io): void {
  const example = 'headgate requests tail --outcome refused';
  const requests = noun(program, io, 'requests', 'what happens to requests', 'past', example);
  withFilters(
    requests.verb(
      'list',
      'list requests of all gateways, newest first',
      'headgate requests list --outcome refused --since 1h',
      'headgate requests list --key key-1 --slower-than 2s -o jsonl',
    ),
  )
    .option('--request <id>', 'only this one')
    .option('--limit <n>', `maximum number of requests (${requestsPerPage})`, count)
    .action<ListOptions>(list);
  registerTail(requests);
  withFilters(
    requests.verb(
      'stats',
      'sum up requests, those of the last hour where no --since is given',
      'headgate requests stats --by organisation --since 30m',
    ),
  )
    .choice('--by <what>', 'what a row is of (model)', statsKinds)
    .action<StatsOptions>(stats);
}

function registerTail(requests: Noun): void {
  withFilters(
    requests.verb(
      'tail',
      'follow requests as they end',
      'headgate requests tail --org acme',
      'headgate requests tail --outcome refused -o jsonl',
    ),
  )
    .option('--last <n>', 'begin with so many that have ended (10)', countIn(0, requestsPerPageMax))
    .action<TailOptions>(async (session, options) => {
      const { tailRequests } = await import('./request-tail.ts');
      await tailRequests(session, options);
    });
}
