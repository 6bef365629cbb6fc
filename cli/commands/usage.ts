/** `headgate usage`: tokens of completed requests, for one organisation or as JSON lines for a billing system. */
import type { Command } from 'commander';
import { resourcesIn } from '../../admin-client/answers.ts';
import { type Io, writeAll } from '../terminal/io.ts';
import { column, type View } from '../terminal/render.ts';
import type { Session } from '../terminal/session.ts';
import { cellText } from '../terminal/text.ts';
import { noun } from '../terminal/verbs.ts';

const modelView: View = {
  columns: [
    column('MODEL', 'model'),
    column('REQUESTS', 'requests'),
    column('PROMPT', 'promptTokens'),
    column('COMPLETION', 'completionTokens'),
    column('TOTAL', 'totalTokens'),
  ],
  name: (resource) => resource['organisation'],
};

interface ShowOptions {
  readonly org: string;
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
    .required('--org <id>', 'the organisation')
    .option('--period <day>', 'first day of the period, YYYY-MM-DD; the current period by default')
    .action<ShowOptions>(show);
  usage
    .verb('export', 'write usage as JSON lines', 'headgate usage export --org acme --from 2026-11-01')
    .option('--org <id>', 'only this organisation')
    .option('--from <day>', 'first day, YYYY-MM-DD')
    .option('--to <day>', 'end day (exclusive), YYYY-MM-DD')
    .action<ExportOptions>(async (session, { org, from, to }) => {
      const api = await session.api();
      const { pieces } = await api.open('/usage/export', { organisation: org, from, to });
      for await (const piece of pieces) await writeAll(session.io.stdout, piece);
    });
}

async function show(session: Session, { org, period }: ShowOptions): Promise<void> {
  const answer = await (await session.api()).get('/usage', { organisation: org, period });
  if (session.out.format !== 'table') return session.out.resource(answer, modelView);
  const models = resourcesIn(answer, 'models');
  const total = { model: 'total', requests: answer['requests'], totalTokens: answer['totalTokens'] };
  await session.out.list({ items: [...models, total] }, modelView);
  const allowance = answer['allowance'] === null ? 'unlimited' : cellText(answer['allowance']);
  session.note(
    `billing period from ${cellText(answer['period'])}, token allowance of the tier: ${allowance}`,
  );
}
