/** `headgate node` manages inference servers, their capacity and the tokens of their agents. */
import type { Command } from 'commander';
import type { LiveNodeResource, NodeToken } from '../../schemas/admin/admin.ts';
import { dialects, nodeStates } from '../../schemas/choices.ts';
import { usageError } from '../terminal/errors.ts';
import { withExamples } from '../terminal/examples.ts';
import type { Io } from '../terminal/io.ts';
import { parsePlace } from '../terminal/options.ts';
import { ageColumn, column, longColumn, type Severity, type View } from '../terminal/render.ts';
import type { Session } from '../terminal/session.ts';
import { formatSome } from '../terminal/text.ts';
import { groups, type Noun, verb } from '../terminal/verbs.ts';
import {
  addNoun,
  choiceField,
  flagField,
  type NounRow,
  pagedListVerb,
  parsedField,
  repeatedField,
  showVerb,
  textField,
  type VerbRow,
  writeVerb,
} from './operation-verbs.ts';
import { createSecret, openSecretOutput, showSecret } from './secrets.ts';

const nodeView: View<LiveNodeResource> = {
  columns: [
    column('ID', 'id'),
    { heading: 'PLACE', cell: placeText },
    { heading: 'STATE', cell: stateText, severity: stateSeverity },
    ageColumn('AGE', 'changedAt'),
    longColumn('REASON', 'reason'),
    column('IN-FLIGHT', 'inFlight'),
    { heading: 'LOADED', cell: ({ loaded }) => formatSome(loaded), isLong: true },
    { heading: 'INSTALLING', cell: installsText, isLong: true },
    column('DIALECT', 'dialect'),
    longColumn('URL', 'url'),
  ],
  name: ({ id }) => id,
};
const tokenView: View<NodeToken> = {
  columns: [
    column('ID', 'id'),
    column('NODE', 'node'),
    column('STATE', 'state'),
    ageColumn('AGE', 'createdAt'),
  ],
  name: ({ id }) => id,
};

function placeText({ place: at }: LiveNodeResource): string {
  return at.kind === 'pool' ? at.kind : `${at.kind}:${at.id}`;
}
function stateText({ drained, up }: LiveNodeResource): 'up' | 'drained' | 'down' {
  if (drained) return 'drained';
  return up ? 'up' : 'down';
}
function installsText({ installs = [] }: LiveNodeResource): string {
  return installs
    .map(({ model, state, percent, reason }) =>
      state === 'failed'
        ? `${model} failed: ${reason}`
        : `${model}${percent === undefined ? '' : ` ${percent}%`}`,
    )
    .join(', ');
}
function stateSeverity(node: LiveNodeResource): Severity {
  return ({ up: 'good', drained: 'warn', down: 'bad' } as const)[stateText(node)];
}

const draining = (name: 'drain' | 'undrain', help: string): VerbRow =>
  writeVerb(`node.${name}`, {
    verb: [`${name} <id>`, help, `headgate node ${name} pool-1`],
    done: `${name}ed`,
    ...(name === 'drain' && { after: noteInFlight }),
  });

/** Prints how many requests the node has in flight, if an agent reports this. */
async function noteInFlight(session: Session, { id }: { readonly id: string }): Promise<void> {
  if (session.out.format !== 'table') return;
  // Ignore an error, because the node has already been drained.
  const { inFlight } = await (await session.api())
    .run('node.get', { id })
    .catch(() => ({ inFlight: undefined }));
  if (inFlight !== undefined)
    session.note(`${inFlight} in flight; headgate node get ${id} shows when it is empty`);
}

const nodes: NounRow = {
  noun: ['node', 'inference servers', 'healthy', 'headgate node list'],
  verbs: [
    pagedListVerb('node.list', {
      verb: ['list', 'list nodes', 'headgate node list', 'headgate node list --state down'],
      options: { state: choiceField('--state <state>', 'only nodes in this state', nodeStates) },
      view: nodeView,
    }),
    showVerb('node.get', {
      verb: ['get <id>', 'show one node', 'headgate node get pool-1'],
      view: nodeView,
    }),
    writeVerb('node.register', {
      verb: [
        'register <id>',
        'register an inference server as a node',
        'headgate node register pool-1 --place pool --url http://10.0.0.5:8000 --dialect vllm',
        'headgate node register a1 --place organisation:acme --url http://10.0.0.6:8080 --dialect llamacpp --agent',
      ],
      operands: ['id'],
      options: {
        url: textField('--url <url>', 'base URL of the inference server', 'required'),
        dialect: choiceField('--dialect <dialect>', 'engine of the inference server', dialects, 'required'),
        agent: flagField(
          '--agent',
          'an agent reports the health of the node; otherwise the control plane probes it',
          true,
        ),
        credential: textField(
          '--credential <name>',
          'name of the credential for the node, in the --node-credentials folder of each gateway',
        ),
        models: repeatedField(
          '--served <model=name>',
          'name that the engine uses for a model; may be repeated',
          servedNames,
        ),
        place: parsedField(
          '--place <place>',
          'place that the node serves: pool, stack:ID or organisation:ID',
          parsePlace,
          'required',
        ),
      },
      done: 'registered',
    }),
    draining('drain', 'stop sending new requests to a node'),
    draining('undrain', 'send requests to a node again'),
    writeVerb('node.delete', {
      verb: ['remove <id>', 'remove a node', 'headgate node remove pool-1 --yes'],
      confirm: ({ id }) => `remove the node ${id}`,
      done: 'removed',
    }),
  ],
};

function servedNames(pairs: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    pairs.map((pair) => {
      const at = pair.indexOf('=');
      if (at < 1 || at === pair.length - 1) throw usageError('--served must be MODEL=NAME');
      return [pair.slice(0, at), pair.slice(at + 1)];
    }),
  );
}

const tokenVerbs: readonly VerbRow[] = [
  (token) =>
    token
      .verb(
        'create <node>',
        'create a token and print its value to stdout, once',
        'headgate node token create pool-1 --out pool-1.token',
      )
      .option('--out <file>', 'write the value to a new file (mode 0600) instead of stdout')
      .action(createToken),
  writeVerb('node-token.revoke', {
    verb: [
      'revoke <token-id>',
      'revoke a token and end the session of its agent',
      'headgate node token revoke tok-1 --yes',
    ],
    confirm: ({ id }) => `revoke the token ${id}`,
    what: 'token',
    done: 'revoked',
  }),
  pagedListVerb('node-token.list', {
    verb: ['list <node>', 'list the tokens of a node', 'headgate node token list pool-1'],
    view: tokenView,
  }),
];

export function registerNodes(program: Command, io: Io): void {
  const node = addNoun(program, io, nodes);
  const token = withExamples(
    node.command('token').description('tokens of node agents').helpGroup(groups.healthy),
    ['headgate node token list pool-1'],
  );
  const noun: Noun = {
    command: token,
    verb: (signature: string, help: string, ...examples: string[]) =>
      verb(token, io, signature, help, examples),
  };
  for (const add of tokenVerbs) add(noun);
}

async function createToken(
  session: Session,
  { out }: { readonly out?: string },
  node: string,
): Promise<void> {
  const api = await session.api();
  const secret = openSecretOutput(session, out);
  const token = await createSecret(secret, () => api.run('node-token.create', { id: node }));
  await showSecret(session, secret, token, {
    summary: `token ${token.id} of node ${node}`,
    revoke: `headgate node token revoke ${token.id}`,
  });
}
