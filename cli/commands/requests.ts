/** `headgate requests` shows requests at all gateways, as a list or a live tail. */
import type { Command } from 'commander';
import type { OperationInput } from '../../schemas/admin/admin.ts';
import {
  type RequestList,
  type RequestRow,
  requestsPerPage,
  requestsPerPageMax,
} from '../../schemas/admin/requests.ts';
import { type RefusalType, refusalKinds } from '../../schemas/api/refusals.ts';
import { outcomeSchema } from '../../schemas/records/verdict.ts';
import type { AdminClient } from '../admin-client/admin-client.ts';
import type { Resource } from '../admin-client/answers.ts';
import type { Io } from '../terminal/io.ts';
import { countParser, parseCount, parseSlowerThan } from '../terminal/options.ts';
import { type Column, column, longColumn, type View } from '../terminal/render.ts';
import type { Session } from '../terminal/session.ts';
import { addNoun, choiceField, customVerb, parsedField, sinceField, textField } from './operation-verbs.ts';
import { callerText, msText, noteSilent, timeText, tokensText, verdictText } from './request-rows.ts';

type ListInput = OperationInput<'request.list'>;

const filters = {
  outcome: choiceField('--outcome <verdict>', 'only requests with this outcome', outcomeSchema.options),
  type: choiceField(
    '--type <type>',
    'only refusals of this type',
    Object.keys(refusalKinds) as RefusalType[],
  ),
  model: textField('--model <id>', 'only requests for this model'),
  organisation: textField('--org <id>', 'only requests of this organisation; required for members'),
  key: textField('--key <id>', 'only requests with this key'),
  node: textField('--node <id>', 'only requests that this node served; for operators'),
  gateway: textField('--gateway <name>', 'only requests at this gateway'),
  'slower-than': parsedField(
    '--slower-than <duration>',
    'only requests that took longer, such as 500ms or 2s',
    parseSlowerThan,
  ),
  since: sinceField,
} as const;

const long = (heading: string, cell: (row: Partial<RequestRow>) => unknown): Column => ({
  ...{ heading, cell: (row: Resource) => cell(row as Partial<RequestRow>), isLong: true },
});

const rowColumns: readonly Column[] = [
  { heading: 'TIME', cell: ({ at }) => timeText(at) },
  long('KEY', callerText),
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

async function list(session: Session, { limit = requestsPerPage, ...filter }: ListInput) {
  const answer = await readPages(await session.api(), filter, limit);
  await session.out.list(answer as unknown as Resource, rowView);
  noteSilent(session, answer.silent);
}

async function readPages(api: AdminClient, filter: ListInput, limit: number): Promise<RequestList> {
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

const verbs = [
  customVerb(
    'request.list',
    {
      verb: [
        'list',
        'list the requests of all gateways, newest first',
        'headgate requests list --outcome refused --since 1h',
        'headgate requests list --key key-1 --slower-than 2s -o jsonl',
      ],
      options: {
        ...filters,
        request: textField('--request <id>', 'only the request with this id'),
        limit: parsedField('--limit <n>', `maximum number of requests (${requestsPerPage})`, parseCount),
      },
    },
    list,
  ),
  customVerb(
    'request.tail',
    {
      verb: [
        'tail',
        'follow requests as they finish',
        'headgate requests tail --org acme',
        'headgate requests tail --outcome refused -o jsonl',
      ],
      options: {
        ...filters,
        limit: parsedField(
          '--last <n>',
          'number of finished requests to show first; 10 by default',
          countParser(0, requestsPerPageMax),
        ),
      },
    },
    async (session, asked) => {
      const { tailRequests } = await import('./request-tail.ts');
      await tailRequests(session, asked);
    },
  ),
];

export function registerRequests(program: Command, io: Io): void {
  const example = 'headgate requests tail --outcome refused';
  addNoun(program, io, { noun: ['requests', 'requests and their outcomes', 'past', example], verbs });
}
