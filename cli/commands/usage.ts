/** `headgate usage`: tokens of completed requests, for one organisation or as JSON lines for a billing system. */
import type { Command } from 'commander';
import { type Resource, resourcesIn } from '../../admin-client/answers.ts';
import { usageError } from '../terminal/errors.ts';
import { type Io, writePiece } from '../terminal/io.ts';
import { day, signedAmount } from '../terminal/options.ts';
import { column, type View } from '../terminal/render.ts';
import { route } from '../terminal/route.ts';
import type { Session } from '../terminal/session.ts';
import { amountText, cellText } from '../terminal/text.ts';
import { noun } from '../terminal/verbs.ts';
import { printWriteResult } from './answers.ts';

const modelView: View = {
  columns: [
    column('MODEL', 'model'),
    column('REQUESTS', 'requests'),
    column('PROMPT', 'promptTokens'),
    column('COMPLETION', 'completionTokens'),
    column('ALL TOKENS', 'totalTokens'),
  ],
  name: (resource) => resource['organisation'],
};

const visitorsView: View = {
  columns: [
    column('VISITORS', 'visitors'),
    column('FROM', 'from'),
    column('TURNS', 'requests'),
    column('PROMPT', 'promptTokens'),
    column('COMPLETION', 'completionTokens'),
    column('TOTAL', 'totalTokens'),
  ],
  name: () => 'visitors',
};

interface ShowOptions {
  readonly org?: string;
  readonly visitors?: true;
  readonly period?: string;
}
interface ExportOptions {
  readonly org?: string;
  readonly from?: string;
  readonly to?: string;
}

export function registerUsage(program: Command, io: Io): void {
  const usage = noun(program, io, 'usage', 'usage of tokens', 'past', 'headgate usage show --org acme');
  usage
    .verb('show', 'show the usage of a billing period', 'headgate usage show --org acme -o json')
    .option('--org <id>', 'the organisation')
    .option('--visitors', 'all visitors together, on the present UTC day and in its month')
    .option('--period <day>', 'first day of the period, YYYY-MM-DD; the current period by default', day)
    .action<ShowOptions>(show);
  usage
    .verb(
      'adjust',
      'add tokens to the present period; a negative number gives allowance back',
      "headgate usage adjust --org acme --tokens -50000 --why 'failed batch of 21 November'",
    )
    .required('--org <id>', 'the organisation')
    .required('--tokens <n>', 'tokens to add, such as 1000 or -1000', signedAmount)
    .action<AdjustOptions>(adjust);
  usage
    .verb('export', 'write usage as JSON lines', 'headgate usage export --org acme --from 2026-11-01')
    .option('--org <id>', 'only this organisation')
    .option('--from <day>', 'first day, YYYY-MM-DD', day)
    .option('--to <day>', 'end day (exclusive), YYYY-MM-DD', day)
    .action<ExportOptions>(async (session, { org, from, to }) => {
      if (from !== undefined && to !== undefined && from >= to)
        throw usageError(`--from ${from} is not before --to ${to}`, 'give --to a later day; it is exclusive');
      const api = await session.api();
      const { pieces } = await api.open('/usage/export', { organisation: org, from, to });
      for await (const piece of pieces) await writePiece(session.io.stdout, piece);
    });
}

interface AdjustOptions {
  readonly org: string;
  readonly tokens: number;
}

async function adjust(session: Session, { org, tokens }: AdjustOptions): Promise<void> {
  if (session.globals.why === undefined)
    throw usageError('the reason is missing: add --why TEXT', 'headgate help usage adjust');
  const path = route`/organisations/${org}/usage-adjustments`;
  const resource = await (await session.api()).write('POST', path, { tokens });
  await printWriteResult(session, resource, 'usage', org, 'adjusted');
}

async function show(session: Session, { org, visitors, period }: ShowOptions): Promise<void> {
  if ((org === undefined) === (visitors === undefined))
    throw usageError('either --org or --visitors is given', 'headgate help usage show');
  if (visitors !== undefined) {
    if (period !== undefined)
      throw usageError('--period is of an organisation: give it with --org', 'headgate help usage show');
    return showVisitors(session);
  }
  const answer = await (await session.api()).get('/usage', { organisation: org, period });
  if (session.out.format !== 'table') return session.out.resource(answer, modelView);
  const models = resourcesIn(answer, 'models');
  const total = { model: 'total', requests: answer['requests'], totalTokens: answer['totalTokens'] };
  await session.out.list({ items: [...models, total] }, modelView);
  const allowance = answer['allowance'] === null ? 'unlimited' : amountText(answer['allowance']);
  const others = (Array.isArray(answer['periods']) ? answer['periods'] : []).filter(
    (each) => each !== answer['period'],
  );
  const { countedTokens: counted, adjustedTokens } = answer;
  session.note(
    `billing period from ${cellText(answer['period'])}, tokens that count against the allowance: ` +
      `${counted === null ? 'not known of a past period,' : amountText(counted)} of ${allowance}` +
      (adjustedTokens === 0 ? '' : `, adjusted by ${amountText(adjustedTokens)}`),
  );
  if (others.length > 0)
    session.note(`other periods: ${others.map(cellText).join(', ')}; see one with --period`);
}

async function showVisitors(session: Session): Promise<void> {
  const answer = await (await session.api()).get('/usage/visitors');
  if (session.out.format !== 'table') return session.out.resource(answer, visitorsView);
  const { day, month } = (answer['visitors'] ?? {}) as Record<string, Resource>;
  const rows = [
    { ...day, visitors: 'day' },
    { ...month, visitors: 'month' },
  ];
  await session.out.list({ items: rows }, visitorsView);
}
