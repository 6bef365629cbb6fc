/** `headgate limits` shows how much of their limits organisations and visitors are using now, across all gateways. */
import type { LimitUse } from '../../schemas/admin/admin.ts';
import { usageError } from '../terminal/errors.ts';
import { type Column, column, type View } from '../terminal/render.ts';
import type { Session } from '../terminal/session.ts';
import { ageText, cellText, formatUse } from '../terminal/text.ts';
import { limitField, listVerb, type NounRow } from './operation-verbs.ts';

const formatRequests = ({ requests: { used, limit } }: LimitUse): string => formatUse(used, limit);
const formatInFlight = ({ concurrency: { inFlight, limit } }: LimitUse): string => formatUse(inFlight, limit);
const formatTokens = ({ tokens: { used, limit } }: LimitUse): string => formatUse(used, limit);

const limitView: View<LimitUse> = {
  columns: [
    column('ORGANISATION', 'organisation'),
    { heading: 'TIER', cell: ({ tier, suspended }) => (suspended ? 'suspended' : cellText(tier)) },
    { heading: 'REQUESTS', cell: formatRequests },
    { heading: 'IN-FLIGHT', cell: formatInFlight },
    { heading: 'ALLOWANCE-TOKENS', cell: formatTokens },
    { heading: 'REFILLS', cell: ({ tokens }) => ageText(tokens.refillsAt) },
  ],
  name: ({ organisation }) => organisation,
};
const gatewayColumns: readonly Column<LimitUse['gateways'][number]>[] = [
  column('GATEWAY', 'name'),
  column('REQUESTS', 'requests'),
  column('IN-FLIGHT', 'inFlight'),
  column('POOL-TOKENS', 'tokens'),
  {
    heading: 'PUBLISHED',
    cell: ({ ageSeconds }) => `${ageSeconds.toFixed(1)}s ago`,
  },
];

interface ShowOptions {
  readonly org?: string;
  readonly visitors?: true;
}

export const limits: NounRow = {
  noun: ['limits', 'current use of limits', 'healthy', 'headgate limits show --org acme'],
  verbs: [
    (limit) =>
      limit
        .verb(
          'show',
          'show the usage of an organisation against its limits, by gateway',
          'headgate limits show --org acme',
        )
        .option('--org <id>', 'organisation to show')
        .option('--visitors', 'all visitors together')
        .action<ShowOptions>(show),
    listVerb('limits.list', {
      verb: [
        'list',
        'list usage against every limit, closest to exhaustion first',
        'headgate limits list --limit 10',
      ],
      options: { limit: limitField },
      view: limitView,
    }),
  ],
};

async function show(session: Session, { org, visitors }: ShowOptions): Promise<void> {
  if ((org === undefined) === (visitors === undefined))
    throw usageError('give either --org or --visitors', 'headgate help limits show');
  const api = await session.api();
  const use = await (org === undefined
    ? api.run('limits.visitors')
    : api.run('organisation.limits', { id: org }));
  const { secondsLeft } = use.requests;
  const { refillsAt } = use.tokens;
  const left = secondsLeft === null ? '' : `, ${secondsLeft}s left`;
  const facts = [
    [org === undefined ? 'visitors' : 'organisation', org ?? 'all together'],
    ['tier', tierText(use)],
    ['requests', `${formatRequests(use)} in this minute${left}`],
    ['in flight', formatInFlight(use)],
    ['pool tokens', `${formatTokens(use)}, refills ${cellText(refillsAt)} (${ageText(refillsAt)})`],
  ] as const;
  const { gateways, inWave } = use;
  const elsewhere = use.tokens.used - gateways.reduce((sum, { tokens }) => sum + tokens, 0);
  await session.out.lines(
    [
      ...[...facts, ...waveFact(inWave)].map(([name, text]) => `${name.padEnd(14)}${text}`),
      '',
      ...(gateways.length === 0
        ? ['no gateway has counted anything in this period']
        : session.out.table(gateways, gatewayColumns)),
      ...(elsewhere === 0
        ? []
        : [
            `${cellText(elsewhere)} pool tokens are not yet in the table: gateways report theirs once a minute`,
          ]),
    ],
    use,
    org ?? 'visitors',
  );
}

function tierText({ tier, suspended }: LimitUse): string {
  if (suspended) return `${cellText(tier)} (suspended, so the organisation cannot use any model)`;
  return tier === null ? 'none, so the organisation cannot use any model' : tier;
}

function waveFact(inWave: LimitUse['inWave']): (readonly [string, string])[] {
  if (inWave === undefined) return [];
  const { change, wave, waves, requestsPerMinute, concurrency, tokens } = inWave;
  const limits = [
    `${cellText(requestsPerMinute ?? 'no limit')} requests`,
    `${cellText(concurrency ?? 'no limit')} in flight`,
    `${cellText(tokens ?? 'no limit')} pool tokens`,
  ];
  return [['in the wave', `${limits.join(', ')}: change ${change} (wave ${wave} of ${waves})`]];
}
