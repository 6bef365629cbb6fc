/** Output of `headgate dev` once it is ready: a context file for the CLI, a ready file for scripts, and commands to try. */
import { homedir } from 'node:os';
import { join, resolve } from 'node:path';
import { usingOption } from '../../cli/processes/options.ts';
import type { LiveNodeResource, Organisation, Stack } from '../../schemas/admin/admin.ts';
import { adminPrefix } from '../../schemas/admin/admin-routes.ts';
import { errorCode } from '../../shared/runtime/error-code.ts';
import { writeJsonAtomically } from '../../shared/runtime/ready-file.ts';
import { readSetting } from '../../shared/runtime/settings.ts';
import type { RunningChild } from './dev-gateways.ts';

export interface DevFacts {
  readonly admin: string;
  readonly console: string;
  /** Link that signs in the operator. It works only once and expires soon. */
  readonly signIn: string;
  readonly operatorToken: string;
  readonly dataDir: string;
  readonly logUrl: string;
  readonly readyFile?: string;
  readonly gateways: readonly RunningChild[];
  readonly stacks: readonly Stack[];
  readonly keys: Readonly<Record<string, string>>;
  readonly organisations: readonly Organisation[];
  readonly nodes: readonly LiveNodeResource[];
  readonly models: readonly string[];
}

const stackDomain = 'localhost';

export function announce(facts: DevFacts): void {
  const document = readyDocument(facts);
  const context = {
    admin: facts.admin,
    token: facts.operatorToken,
    dataDir: facts.dataDir,
    log: facts.logUrl,
    gateways: facts.gateways.map(({ name }) => ({ name, dataDir: join(facts.dataDir, name) })),
  };
  writeContext(context);
  const { readyFile } = facts;
  if (readyFile !== undefined) usingOption('--ready-file', () => writeJsonAtomically(readyFile, document));
  process.stdout.write(humanText(facts, document));
}

/** Writes the context file, which tells the CLI how to reach this fleet. A failure causes only a warning. */
function writeContext(context: object): void {
  const named = readSetting('HEADGATE_CONTEXT')?.replace(/^~(?=\/)/, homedir());
  const path = named ?? join('.headgate', 'context.json');
  try {
    writeJsonAtomically(resolve(path), context);
  } catch (error) {
    process.stderr.write(
      `warning: ${path} cannot be written (${errorCode(error) ?? 'unknown error'}), so the CLI does not find this fleet; set HEADGATE_CONTEXT to a writable file\n`,
    );
  }
}

interface ReadyStack extends Omit<Stack, 'nodes'> {
  readonly url: string;
}
interface ReadyDocument {
  readonly stacks: readonly ReadyStack[];
  readonly gateways: readonly Pick<RunningChild, 'name' | 'api' | 'metrics' | 'play'>[];
}

function readyDocument(facts: DevFacts): ReadyDocument & Record<string, unknown> {
  const urls = new Map(facts.gateways.flatMap(({ stacks }) => stacks.map(({ stack, url }) => [stack, url])));
  const pids = Object.fromEntries(facts.gateways.map(({ name, pid }) => [name, pid]));
  return {
    admin: facts.admin,
    console: { url: facts.console, signIn: facts.signIn },
    operatorToken: facts.operatorToken,
    sharedHost: '127.0.0.1',
    stackDomain,
    gateways: facts.gateways.map(({ name, api, metrics, play }) => ({
      ...{ name, api, metrics },
      ...(play !== undefined && { play }),
    })),
    stacks: facts.stacks.map(({ id, organisation, surface, models }) => ({
      id,
      organisation,
      surface,
      url: urls.get(id) ?? '',
      models,
    })),
    organisations: facts.organisations.map(({ id, tier }) => ({ id, tier, key: facts.keys[id] })),
    nodes: facts.nodes.map(({ id, url }) => ({ id, url })),
    pids: { dev: process.pid, ...pids },
  };
}

function humanText(facts: DevFacts, { stacks, gateways }: ReadyDocument): string {
  const [first] = gateways;
  const organisation = facts.organisations.find(({ tier }) => tier !== null) ?? facts.organisations[0];
  const key = organisation && facts.keys[organisation.id];
  const lines = ['', 'Headgate is ready.', ''];
  for (const { name, api, metrics } of gateways)
    lines.push(`  ${name.padEnd(12)}${api}   (health and metrics ${metrics})`);
  lines.push(`  ${'admin'.padEnd(12)}${facts.admin}${adminPrefix}   (data in ${facts.dataDir})`);
  lines.push(`  ${'console'.padEnd(12)}${facts.console}   (headgate console open signs in)`);
  if (first?.play !== undefined) lines.push(`  ${'playground'.padEnd(12)}${first.play}   (for visitors)`);
  for (const { id, organisation: owner, url } of stacks)
    lines.push(`  ${'stack'.padEnd(12)}${url}   (${id} of ${owner})`);
  if (first && /\/\/(?:0\.0\.0\.0|\[::\])[:/]/.test(first.api))
    lines.push(
      '',
      'From another machine, replace the host in these addresses with the name or address of this machine.',
    );
  if (first && organisation && key !== undefined)
    lines.push(...tryText(first.api, organisation.id, key, facts, stacks));
  lines.push('', 'Sign in to the console, within a minute', `  ${facts.signIn}`);
  lines.push('', 'Stop with Ctrl-C. The next start continues with the same data.', '');
  return lines.join('\n');
}

function tryText(
  api: string,
  organisation: string,
  key: string,
  facts: DevFacts,
  stacks: readonly ReadyStack[],
): string[] {
  const pooled = chatModel(facts.models);
  const own = stacks.find(
    ({ id, organisation: owner }) =>
      owner === organisation && facts.nodes.some(({ place }) => place.kind === 'stack' && place.id === id),
  );
  const curl = (base: string, name: string, more = ''): string =>
    `curl ${base}/chat/completions -H 'Authorization: Bearer ${key}' -H 'Content-Type: application/json' -d '{"model":"${name}",${more}"messages":[{"role":"user","content":"hello"}]}'`;
  return [
    '',
    `A key of ${organisation}:  ${key}`,
    '',
    'Try',
    `  ${curl(api, pooled)}`,
    `  ${curl(api, pooled, '"stream":true,')}`,
    ...(own ? [`  ${curl(own.url, chatModel(own.models))}`] : []),
    `  new OpenAI({ baseURL: '${api}', apiKey: '${key}' })`,
    '',
    'Then',
    '  npx headgate key list',
    '  npx headgate key revoke KEY-ID --wait --yes     then the same curl returns 401',
    '  npx headgate gateway list',
    '  npx headgate --help',
  ];
}

function chatModel(models: readonly string[]): string {
  return models.find((model) => !/embed/i.test(model)) ?? models[0] ?? 'MODEL';
}
