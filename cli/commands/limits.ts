/** `headgate limits`: what organisations and visitors use of their limits now, over all gateways. */
import type { Command } from 'commander';
import { type Resource, resourcesIn } from '../../admin-client/answers.ts';
import { usageError } from '../terminal/errors.ts';
import type { Io } from '../terminal/io.ts';
import { count } from '../terminal/options.ts';
import { type Column, column, type View } from '../terminal/render.ts';
import { route } from '../terminal/route.ts';
import type { Session } from '../terminal/session.ts';
import { ageText, cellText, usedText } from '../terminal/text.ts';
import { noun } from '../terminal/verbs.ts';
import { type ListOptions, showList } from './answers.ts';

const part = (resource: Resource, name: string): Resource => (resource[name] ?? {}) as Resource;
const requestsOf = (resource: Resource): string => {
  const { used, limit } = part(resource, 'requests');
  return usedText(used, limit);
};
const inFlightOf = (resource: Resource): string => {
  const { inFlight, limit } = part(resource, 'concurrency');
  return usedText(inFlight, limit);
};
const tokensOf = (resource: Resource): string => {
  const { used, limit } = part(resource, 'tokens');
  return usedText(used, limit);
};
const refillsAt = (resource: Resource): unknown => part(resource, 'tokens')['refillsAt'];

const limitView: View = {
  columns: [
    column('ORGANISATION', 'organisation'),
    column('TIER', 'tier'),
    { heading: 'REQUESTS', cell: requestsOf },
    { heading: 'IN-FLIGHT', cell: inFlightOf },
    { heading: 'ALLOWANCE-TOKENS', cell: tokensOf },
    { heading: 'REFILLS', cell: (resource) => ageText(refillsAt(resource)) },
  ],
  name: (resource) => resource['organisation'],
};
const gatewayColumns: readonly Column[] = [
  column('GATEWAY', 'name'),
  column('REQUESTS', 'requests'),
  column('IN-FLIGHT', 'inFlight'),
  column('POOL-TOKENS', 'tokens'),
  {
    heading: 'PUBLISHED',
    cell: ({ ageSeconds }) => (typeof ageSeconds === 'number' ? `${ageSeconds.toFixed(1)}s ago` : '-'),
  },
];

interface ShowOptions {
  readonly org?: string;
  readonly visitors?: true;
}

export function registerLimits(program: Command, io: Io): void {
  const limits = noun(
    program,
    io,
    'limits',
    'what is used of limits now',
    'healthy',
    'headgate limits show --org acme',
  );
  limits
    .verb(
      'show',
      'show what one organisation uses of its limits, by gateway',
      'headgate limits show --org acme',
    )
    .option('--org <id>', 'the organisation')
    .option('--visitors', 'all visitors together')
    .action<ShowOptions>(show);
  limits
    .verb('list', 'list the use of all limits, who is nearest first', 'headgate limits list --limit 10')
    .option('--limit <n>', 'maximum number of items', count)
    .action<ListOptions>((session, { limit }) => showList(session, '/limits', limitView, { limit }));
}

async function show(session: Session, { org, visitors }: ShowOptions): Promise<void> {
  if ((org === undefined) === (visitors === undefined))
    throw usageError('either --org or --visitors is given', 'headgate help limits show');
  const path = org === undefined ? '/limits/visitors' : route`/organisations/${org}/limits`;
  const use: Resource = await (await session.api()).get(path);
  const { secondsLeft } = part(use, 'requests');
  const left = typeof secondsLeft === 'number' ? `, ${secondsLeft}s left` : '';
  const facts = [
    [org === undefined ? 'visitors' : 'organisation', org ?? 'all together'],
    ['plan', cellText(use['tier'])],
    ['requests', `${requestsOf(use)} in this minute${left}`],
    ['in flight', inFlightOf(use)],
    ['pool tokens', `${tokensOf(use)}, refills ${cellText(refillsAt(use))} (${ageText(refillsAt(use))})`],
  ] as const;
  const gateways = resourcesIn(use, 'gateways');
  await session.out.lines(
    [
      ...facts.map(([name, text]) => `${name.padEnd(14)}${text}`),
      '',
      ...(gateways.length === 0
        ? ['no gateway has counted anything in this period']
        : session.out.table(gateways, gatewayColumns)),
    ],
    use,
    org ?? 'visitors',
  );
}
