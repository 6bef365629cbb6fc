/** `headgate explain` shows why a request is served or refused, which event caused this, and what would change it. */
import type { Command } from 'commander';
import { explainedKinds } from '../../schemas/api/operations.ts';
import { explanationSchema } from '../../schemas/records/explanations.ts';
import type { Resource } from '../admin-client/answers.ts';
import { CliError, Exit, usageError } from '../terminal/errors.ts';
import type { Io } from '../terminal/io.ts';
import { parseAmount, parseMomentOption } from '../terminal/options.ts';
import { column, type View } from '../terminal/render.ts';
import type { Session } from '../terminal/session.ts';
import { readInput } from '../terminal/settings.ts';
import { groups, verb } from '../terminal/verbs.ts';
import { explanationLines } from './explain-lines.ts';

interface Options {
  readonly key?: string;
  readonly org?: string;
  readonly visitor?: boolean;
  readonly request?: string;
  readonly model?: string;
  readonly host?: string;
  readonly path?: string;
  readonly promptTokens?: number;
  readonly maxTokens?: number;
  readonly diff?: string;
  readonly wave?: boolean;
  readonly list?: boolean;
}

export function registerExplain(program: Command, io: Io): void {
  const command = verb(program, io, 'explain', 'explain why a request is served or refused', [
    'headgate explain --key key-3k9… --model echo-small',
    'headgate explain --request req_…',
    'headgate explain --org acme --list',
  ])
    .option('--key <id>', 'explain a request with this key')
    .option('--org <id>', 'explain a request with any valid key of this organisation')
    .option('--visitor', 'explain a request of a visitor')
    .option(
      '--request <id>',
      'explain the request with this x-request-id; - reads its recorded decision from stdin',
    )
    .option('--model <id>', 'requested model')
    .option('--host <host>', 'requested host: shared (default) or a stack id')
    .option('--prompt-tokens <n>', 'number of prompt tokens', parseAmount)
    .option('--max-tokens <n>', 'maximum number of output tokens that the request asks for', parseAmount)
    .option(
      '--diff <moment>',
      'explain what has changed since this position or time, or since some time ago, such as 10m',
      parseMomentOption,
    )
    .option('--wave', 'decide like a gateway in a wave of the open change')
    .choice('--path <path>', 'kind of request', explainedKinds)
    .option('--list', 'show the result for each model, on the shared host and on each stack of --org');
  command.command.helpGroup(groups.past);
  command.action<Options>(run);
}

async function run(session: Session, options: Options): Promise<void> {
  if (options.list && options.wave) throw usageError('--wave is not for --list', 'headgate explain --help');
  if (options.list) return list(session, options);
  const body = await question(session, options);
  const api = await session.api();
  const explanation = explanationSchema.parse(await api.send('decision.explain', body));
  await session.out.lines(
    explanationLines({ explanation, request: options.request, columns: session.out.columns }),
    explanation,
    explanation.verdict.type ?? explanation.verdict.outcome,
  );
  const { verdict, diff } = explanation;
  if (diff !== undefined) {
    if (diff.steps.length > 0) throw new Exit(1);
  } else if (!verdict.served) throw new Exit(1);
}

const matrixView: View = {
  columns: [
    column('MODEL', 'model'),
    column('HOST', 'host'),
    column('PATH', 'path'),
    { heading: 'STATUS', cell: ({ status }) => status },
    { heading: 'ANSWER', cell: ({ served, type }) => (served ? 'served' : type) },
  ],
  name: ({ model, host }) => `${String(model)}@${String(host)}`,
};

async function list(session: Session, { org }: Options): Promise<void> {
  if (org === undefined) throw usageError('--list needs --org', 'headgate explain --help');
  const api = await session.api();
  const items: Resource[] = [];
  for (let after: string | undefined; ; ) {
    const page = await api.run('decision.matrix', { organisation: org, after });
    items.push(...(page['items'] as Resource[]));
    if (typeof page['next'] !== 'string') return session.out.list({ ...page, items }, matrixView);
    after = page['next'];
  }
}

async function question(session: Session, options: Options): Promise<Resource> {
  const { key, org, visitor, request, model, host, path, promptTokens, maxTokens, diff, wave } = options;
  if ([key, org, visitor, request].filter((one) => one !== undefined).length !== 1)
    throw usageError('give one of --key, --org, --visitor and --request', 'headgate explain --help');
  if (wave && request !== undefined)
    throw usageError(
      '--wave cannot be used with a recorded request',
      'the record already says which state its gateway had',
    );
  if (request === undefined && model === undefined && path !== 'models')
    throw usageError('give --model', 'headgate explain --help');
  const asked =
    request === '-'
      ? { record: parseLine(await readInput(session.io, '-')) }
      : { key, organisation: org, visitor, request };
  const { at } = session.globals;
  return { ...asked, model, host, path, promptTokens, maxTokens, at, diff, wave };
}

function parseLine(text: string): unknown {
  try {
    return JSON.parse(text.trim().split('\n')[0] ?? '');
  } catch (error) {
    throw new CliError('stdin does not contain a line of a decision journal', {
      type: 'InvalidFile',
      next: 'headgate decisions export | grep req_… | headgate explain --request -',
      cause: error,
    });
  }
}
