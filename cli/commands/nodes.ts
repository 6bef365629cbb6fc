/** `headgate node`: inference servers, their capacity, and the tokens of their agents. */
import type { Command } from 'commander';
import type { Resource } from '../../admin-client/answers.ts';
import { resourcesIn } from '../../admin-client/answers.ts';
import { dialectSchema, nodeStateSchema } from '../../schemas/names.ts';
import { confirmDestructive } from '../terminal/confirm.ts';
import { usageError } from '../terminal/errors.ts';
import type { Io } from '../terminal/io.ts';
import { count, place } from '../terminal/options.ts';
import { ageColumn, column, longColumn, type Severity, type View } from '../terminal/render.ts';
import { route } from '../terminal/route.ts';
import { someText } from '../terminal/text.ts';
import { groups, type Noun, noun, verb, withExamples } from '../terminal/verbs.ts';
import {
  type ListOptions,
  type PageOptions,
  pageQuery,
  printWriteResult,
  showList,
  showResource,
  withPages,
} from './answers.ts';
import { createSecret, openSecretOutput, showSecret } from './secrets.ts';

const nodeView: View = {
  columns: [
    column('ID', 'id'),
    { heading: 'PLACE', cell: placeText },
    { heading: 'STATE', cell: stateText, severity: stateSeverity },
    ageColumn('AGE', 'changedAt'),
    longColumn('REASON', 'reason'),
    column('IN-FLIGHT', 'inFlight'),
    { heading: 'LOADED', cell: ({ loaded }) => someText(loaded), isLong: true },
    { heading: 'INSTALLING', cell: installsText, isLong: true },
    column('DIALECT', 'dialect'),
    longColumn('URL', 'url'),
  ],
  name: (resource) => resource['id'],
};
const tokenView: View = {
  columns: [
    column('ID', 'id'),
    column('NODE', 'node'),
    column('STATE', 'state'),
    ageColumn('AGE', 'createdAt'),
  ],
  name: (resource) => resource['id'],
};

function placeText(resource: Resource): string {
  const { kind, id } = (resource['place'] ?? {}) as { readonly kind?: unknown; readonly id?: unknown };
  return id === undefined ? String(kind) : `${String(kind)}:${String(id)}`;
}
function stateText(resource: Resource): 'up' | 'drained' | 'down' {
  if (resource['drained'] === true) return 'drained';
  return resource['up'] === true ? 'up' : 'down';
}
function installsText(resource: Resource): string {
  const installs = resourcesIn(resource, 'installs');
  return installs
    .map(({ model, state, percent, reason }) =>
      state === 'failed'
        ? `${String(model)} failed: ${String(reason)}`
        : `${String(model)}${percent === undefined ? '' : ` ${String(percent)}%`}`,
    )
    .join(', ');
}
function stateSeverity(resource: Resource): Severity {
  return ({ up: 'good', drained: 'warn', down: 'bad' } as const)[stateText(resource)];
}

interface RegisterOptions {
  readonly place: ReturnType<typeof place>;
  readonly url: string;
  readonly dialect: string;
  readonly agent?: boolean;
  readonly credential?: string;
  readonly served?: readonly string[];
}

export function registerNodes(program: Command, io: Io): void {
  const node = noun(program, io, 'node', 'inference servers', 'healthy', 'headgate node list');
  withPages(
    node
      .verb('list', 'list nodes', 'headgate node list', 'headgate node list --state down')
      .choice('--state <state>', 'only nodes in this state', nodeStateSchema.options),
  ).action<PageOptions & { readonly state?: string }>((session, { state, ...page }) =>
    showList(session, '/nodes', nodeView, { state, ...pageQuery(page) }),
  );
  node
    .verb('get <id>', 'show one node', 'headgate node get pool-1')
    .action((session, _options, id) => showResource(session, route`/nodes/${id}`, nodeView));
  registerRegister(node);
  for (const [name, done] of [
    ['drain', 'drained'],
    ['undrain', 'undrained'],
  ] as const) {
    const summary = name === 'drain' ? 'send no new requests to a node' : 'send requests to a node again';
    node
      .verb(`${name} <id>`, summary, `headgate node ${name} pool-1`)
      .action(async (session, _options, id) => {
        const path = route`/nodes/${id}/${name}`;
        await printWriteResult(session, await (await session.api()).write('POST', path), 'node', id, done);
      });
  }
  node
    .verb('remove <id>', 'remove a node', 'headgate node remove pool-1 --yes')
    .action(async (session, _options, id) => {
      await confirmDestructive(session, id, `remove the node ${id}`);
      const resource = await (await session.api()).write('DELETE', route`/nodes/${id}`);
      await printWriteResult(session, resource, 'node', id, 'removed');
    });
  const command = program.commands.find((known) => known.name() === 'node');
  if (command) registerTokens(command, io);
}

function registerRegister(node: Noun): void {
  const register = node
    .verb(
      'register <id>',
      'register an inference server',
      'headgate node register pool-1 --place pool --url http://10.0.0.5:8000 --dialect vllm',
      'headgate node register a1 --place organisation:acme --url http://10.0.0.6:8080 --dialect llamacpp --agent',
    )
    .required('--url <url>', 'base URL of the inference server')
    .choice('--dialect <dialect>', 'API of the inference server', dialectSchema.options, true)
    .option('--agent', 'an agent reports its health; otherwise the control plane probes it')
    .option('--credential <name>', 'name of its credential in the --node-credentials folder of the gateways')
    .repeated('--served <model=name>', 'name of a model in the engine; may be repeated');
  register.required('--place <place>', 'pool, stack:ID or organisation:ID', place);
  register.action<RegisterOptions>(async (session, options, id) => {
    const { place: at, url, dialect, agent, credential, served } = options;
    const body = {
      id,
      place: at,
      url,
      dialect,
      ...(agent && { agent }),
      ...(credential !== undefined && { credential }),
      ...(served && { models: servedNames(served) }),
    };
    await printWriteResult(
      session,
      await (await session.api()).write('POST', '/nodes', body),
      'node',
      id,
      'registered',
    );
  });
}

function servedNames(pairs: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    pairs.map((pair) => {
      const at = pair.indexOf('=');
      if (at < 1 || at === pair.length - 1) throw usageError('--served must be MODEL=NAME');
      return [pair.slice(0, at), pair.slice(at + 1)];
    }),
  );
}

function registerTokens(node: Command, io: Io): void {
  const token = withExamples(
    node.command('token').description('tokens of node agents').helpGroup(groups.healthy),
    ['headgate node token list pool-1'],
  );
  verb(token, io, 'create <node>', 'create a token; its value is printed once, alone on stdout', [
    'headgate node token create pool-1 --out pool-1.token',
  ])
    .option('--out <file>', 'write the value to a new file (mode 0600) instead of stdout')
    .action<{ readonly out?: string }>(async (session, { out }, node_) => {
      const api = await session.api();
      const path = route`/nodes/${node_}/tokens`;
      const secret = openSecretOutput(session, out);
      const resource = await createSecret(secret, () => api.write('POST', path));
      const id = String(resource['id']);
      await showSecret(session, secret, resource, {
        summary: `token ${id} of node ${node_}`,
        revoke: `headgate node token revoke ${id}`,
      });
    });
  verb(token, io, 'revoke <token-id>', 'revoke a token and end its agent session', [
    'headgate node token revoke tok-1 --yes',
  ]).action(async (session, _options, id) => {
    const path = route`/tokens/${id}/revoke`;
    await confirmDestructive(session, id, `revoke the token ${id}`);
    await printWriteResult(session, await (await session.api()).write('POST', path), 'token', id, 'revoked');
  });
  verb(token, io, 'list <node>', 'list the tokens of a node', ['headgate node token list pool-1'])
    .option('--limit <n>', 'maximum number of items', count)
    .action<ListOptions>((session, { limit }, node_) =>
      showList(session, route`/nodes/${node_}/tokens`, tokenView, { limit }),
    );
}
