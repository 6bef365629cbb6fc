/** `headgate usage` shows the tokens of completed requests, for one organisation or as JSON lines for a billing system. */
import type { OperationInput } from '../../schemas/admin/admin.ts';
import { usageError } from '../terminal/errors.ts';
import { writePiece } from '../terminal/io.ts';
import { parseDay, parseSignedAmount } from '../terminal/options.ts';
import { column, type View } from '../terminal/render.ts';
import type { Session } from '../terminal/session.ts';
import { amountText, cellText } from '../terminal/text.ts';
import { customVerb, type NounRow, parsedField, textField, writeVerb } from './operation-verbs.ts';

const modelView: View = {
  columns: [
    column('MODEL', 'model'),
    column('REQUESTS', 'requests'),
    column('PROMPT', 'promptTokens'),
    column('COMPLETION', 'completionTokens'),
    column('ALL TOKENS', 'totalTokens'),
  ],
  name: ({ organisation }) => organisation,
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

export const usage: NounRow = {
  noun: ['usage', 'token usage', 'past', 'headgate usage show --org acme'],
  verbs: [
    (noun) =>
      noun
        .verb('show', 'show the usage of a billing period', 'headgate usage show --org acme -o json')
        .option('--org <id>', 'organisation to show')
        .option('--visitors', 'show all visitors together, for the current UTC day and month')
        .option(
          '--period <day>',
          'first day of the period, YYYY-MM-DD; the current period by default',
          parseDay,
        )
        .action<ShowOptions>(show),
    writeVerb('usage.adjust', {
      verb: [
        'adjust',
        'add tokens to the usage of the current period; a negative number gives allowance back',
        "headgate usage adjust --org acme --tokens -50000 --why 'failed batch of 21 November'",
      ],
      operands: [],
      options: {
        id: textField('--org <id>', 'organisation whose usage to adjust', 'required'),
        tokens: parsedField(
          '--tokens <n>',
          'tokens to add, such as 1000 or -1000',
          parseSignedAmount,
          'required',
        ),
      },
      check: (_input, { globals: { why } }) => {
        if (why === undefined)
          throw usageError('the reason is missing: add --why TEXT', 'headgate help usage adjust');
      },
      id: ({ id }) => String(id),
      done: 'adjusted',
    }),
    customVerb(
      'usage.export',
      {
        verb: [
          'export',
          'write usage rows as JSON lines',
          'headgate usage export --org acme --from 2026-11-01',
        ],
        options: {
          organisation: textField('--org <id>', 'only this organisation'),
          from: parsedField('--from <day>', 'first day, YYYY-MM-DD', parseDay),
          to: parsedField('--to <day>', 'day after the last exported day, YYYY-MM-DD', parseDay),
        },
      },
      exportUsage,
    ),
  ],
};

async function exportUsage(session: Session, asked: OperationInput<'usage.export'>): Promise<void> {
  const { from, to } = asked;
  if (from !== undefined && to !== undefined && from >= to)
    throw usageError(`--from ${from} is not before --to ${to}`, 'give --to a later day; it is exclusive');
  const api = await session.api();
  const { headers, pieces } = await api.open('usage.export', asked);
  const complete = headers.get('x-headgate-complete-from');
  if (complete !== null && (from === undefined || from < complete))
    session.note(`complete from ${cellText(complete)} on; requests of earlier days are no longer kept`);
  for await (const piece of pieces) await writePiece(session.io.stdout, piece);
}

async function show(session: Session, { org, visitors, period }: ShowOptions): Promise<void> {
  if ((org === undefined) === (visitors === undefined))
    throw usageError('give either --org or --visitors', 'headgate help usage show');
  if (visitors !== undefined) {
    if (period !== undefined)
      throw usageError('--period needs an organisation: add --org', 'headgate help usage show');
    return showVisitors(session);
  }
  if (org === undefined) return;
  const answer = await (await session.api()).run('usage.get', { organisation: org, period });
  if (session.out.format !== 'table') return session.out.resource(answer, modelView);
  const { models, requests, totalTokens, adjustedTokens } = answer;
  const sum = (name: 'promptTokens' | 'completionTokens'): number =>
    models.reduce((tokens, model) => tokens + model[name], 0);
  const total = {
    model: 'total',
    promptTokens: sum('promptTokens'),
    completionTokens: sum('completionTokens'),
    ...{ requests, totalTokens },
  };
  await session.out.list({ items: [...models, total] }, modelView);
  const allowance = answer.allowance === null ? 'unlimited' : amountText(answer.allowance);
  const others = answer.periods.filter((each) => each !== answer.period);
  const { countedTokens: counted } = answer;
  session.note(
    `billing period from ${cellText(answer.period)}, tokens that count against the allowance: ` +
      `${counted === null ? 'not known for a past period,' : amountText(counted)} of ${allowance}` +
      (adjustedTokens === 0 ? '' : `, adjusted by ${amountText(adjustedTokens)}`),
  );
  if (others.length > 0)
    session.note(`other periods: ${others.map(cellText).join(', ')}; see one with --period`);
}

async function showVisitors(session: Session): Promise<void> {
  const answer = await (await session.api()).run('usage.visitors');
  if (session.out.format !== 'table') return session.out.resource(answer, visitorsView);
  const { visitors } = answer;
  const rows = [
    { ...visitors.day, visitors: 'day' },
    { ...visitors.month, visitors: 'month' },
  ];
  await session.out.list({ items: rows }, visitorsView);
}
