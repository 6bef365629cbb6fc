/** `headgate requests`: what happens to requests at all gateways, as a list, followed live, or summed up. */
import type { Command } from 'commander';
import type { AdminClient } from '../../admin-client/admin-client.ts';
import type { Resource } from '../../admin-client/answers.ts';
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
import { count, countIn, moment, slowerThan } from '../terminal/options.ts';
import { type Column, column, longColumn, type View } from '../terminal/render.ts';
import type { Session } from '../terminal/session.ts';
import { type Noun, noun, type Verb } from '../terminal/verbs.ts';
import {
  type FilterOptions,
  filterOf,
  msText,
  noteSilent,
  type RequestFilter,
  type RequestTailOptions,
  timeText,
  tokensText,
  verdictText,
} from './request-rows.ts';

interface ListOptions extends FilterOptions {
  readonly request?: string;
  readonly limit?: number;
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
    .option('--slower-than <duration>', 'only those that took longer, such as 500ms or 2s', slowerThan)
    .option('--since <time>', 'a time, or a time ago such as 10m or 1h', moment);
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

async function list(session: Session, { limit = requestsPerPage, request, ...filters }: ListOptions) {
  const api = await session.api();
  const given = { ...filterOf(filters), ...(request !== undefined && { request }) };
  const answer = await pagesOf(api, given, limit);
  await session.out.list(answer as unknown as Resource, rowView);
  noteSilent(session, answer.silent);
}

/** Read in as many pages as needed. */
async function pagesOf(api: AdminClient, filter: RequestFilter, limit: number): Promise<RequestList> {
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
    .action<RequestTailOptions>(async (session, options) => {
      const { tailRequests } = await import('./request-tail.ts');
      await tailRequests(session, options);
    });
}
