/**
 * Tests with real processes that a command's predicted effect is true. After random commands, exactly the requests named in
 * the effect must get another response, each as predicted. HEADGATE_EFFECT_SEED selects other commands.
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Effect, type EffectRequest, effectSchema } from '../../schemas/admin/effect.ts';
import type { Fleet } from '../../schemas/events/fleet.ts';
import { call, chatBody } from '../support/api.ts';
import { runs, scaledMs } from '../support/budget.ts';
import { type GatewayProcess, opened, type Plane, ProcessFleet } from '../support/process-fleet.ts';
import { seededRandom } from '../support/random.ts';
import { until } from '../support/until.ts';

const seed = Number(process.env['HEADGATE_EFFECT_SEED'] ?? 1);
const commands = runs({ fast: 6, full: 10 });

const models = ['echo-small', 'echo-large', 'echo-embed', 'echo-own'];
const tiers = ['Starter', 'Team', 'Wide'];
const organisations = ['acme', 'birch', 'cedar', 'elm'];
const stacks = { otter: 'stk-amber-otter-9k2f', heron: 'stk-quiet-heron-4m7q' };
const nodes = ['pool-1', 'pool-2', 'acme-1', 'otter-1', 'heron-1'];

function fleetOf(url: string, own: string): Fleet {
  const node = (id: string, at = url) => ({ id, url: at, dialect: 'vllm' as const });
  return {
    version: 1,
    models: models.map((id) => ({ id, family: 'echo', weight: 1 })),
    tiers: [
      { id: 'Starter', models: ['echo-small'] },
      { id: 'Team', models: ['echo-small', 'echo-large'] },
      { id: 'Wide', models: '*' },
    ],
    pool: { models: models.slice(0, 3), nodes: [node('pool-1'), node('pool-2')] },
    organisations: [
      {
        ...{ id: 'acme', name: 'Acme', tier: 'Wide', nodes: [node('acme-1', own)] },
        stacks: [{ id: stacks.otter, models: ['echo-large'], nodes: [node('otter-1')] }],
      },
      {
        ...{ id: 'birch', name: 'Birch', tier: 'Team' },
        stacks: [
          { id: stacks.heron, surface: 'anthropic', models: ['echo-small'], nodes: [node('heron-1')] },
        ],
      },
      { id: 'cedar', name: 'Cedar', tier: 'Starter' },
      { id: 'elm', name: 'Elm', tier: 'Starter' },
    ],
  };
}

class EffectFleet extends ProcessFleet {
  plane!: Plane;
  document!: Fleet;
  gateways: readonly GatewayProcess[] = [];
  readonly keys = new Map<string, string>();

  static begin(): Promise<EffectFleet> {
    const fleet = new EffectFleet({ timeoutMs: 60_000 });
    return opened(fleet, () => fleet.#begin());
  }

  get operator() {
    return this.admin(this.plane);
  }

  async #begin(): Promise<void> {
    const all = ['--models', models.slice(0, 3).join(','), '--tokens-per-second', '0'];
    const own = ['--models', 'echo-own,echo-small', '--tokens-per-second', '0'];
    const [{ ready: shared }, { ready: private_ }] = await Promise.all([
      this.simNode('shared', ...all),
      this.simNode('own', ...own),
    ]);
    this.plane = await this.startPlane();
    this.document = fleetOf(shared.url, private_.url);
    await this.operator.apply(this.document);
    for (const id of organisations) this.keys.set(id, (await this.operator.createKey(id, 'k')).value);
    const flags = ['--stack-domain', 'stacks.test', '--control-plane', this.plane.ready.admin];
    this.gateways = await Promise.all(
      ['gateway-1', 'gateway-2'].map((name) => this.startGateway(name, { flags })),
    );
    await this.settle();
    // A gateway reports where its request records are only from its second report on.
    await until(async () => {
      const { silent } = await this.operator.call('GET', '/requests?limit=1');
      return (silent as string[]).length === 0;
    });
  }

  /** Waits until both gateways have applied every command and the probes found every node up. */
  async settle(): Promise<void> {
    await until(async () => {
      const { complete, gateways } = await this.operator.confirmed(await this.operator.position(), 30);
      const isProbed = (await this.operator.nodes()).every(({ up }) => up);
      return complete && gateways.length === 2 && isProbed;
    }, 60_000);
  }

  effect(asked: EffectRequest): Promise<Effect> {
    return this.operator.call('POST', '/effect', asked).then((answer) => effectSchema.parse(clean(answer)));
  }
}

const clean = (answer: object): unknown => JSON.parse(JSON.stringify(answer));

let fleet: EffectFleet;
beforeAll(async () => {
  fleet = await EffectFleet.begin();
}, scaledMs(180_000));
afterAll(() => fleet?.close());

const random = seededRandom(seed);
const oneOf = <Value>(values: readonly Value[]): Value =>
  values[Math.floor(random() * values.length)] as Value;
const some = <Value>(values: readonly Value[]): Value[] => values.filter(() => random() < 0.5);
const stack = () => oneOf(Object.values(stacks));
const model = () => oneOf(models);

type EffectCommand = Extract<EffectRequest, { readonly method: string }>;
const command = (method: EffectCommand['method'], path: string, body?: object): EffectCommand => ({
  ...{ method, path },
  ...(body && { body }),
});
/** Commands that often change responses. If the state refuses a drawn command, another is drawn. */
const drawn: readonly (() => EffectCommand)[] = [
  () => command('PUT', `/tiers/${oneOf(tiers)}`, { models: random() < 0.2 ? '*' : some(models) }),
  () => command('PATCH', `/organisations/${oneOf(organisations)}`, { tier: oneOf([...tiers, null]) }),
  () => command('PATCH', `/organisations/${oneOf(organisations)}`, { suspended: random() < 0.5 }),
  () => command(oneOf(['PUT', 'DELETE']), `/pool/models/${model()}`),
  () => command(oneOf(['PUT', 'DELETE']), `/stacks/${stack()}/models/${model()}`),
  () => command('PATCH', `/stacks/${stack()}`, { surface: oneOf(['openai', 'anthropic']) }),
  () => command('POST', `/nodes/${oneOf(nodes)}/${oneOf(['drain', 'undrain'])}`),
  // Restores the initial fleet, so that there is always something to change.
  () => command('POST', '/fleet/apply', { fleet: fleet.document }),
];

const hosts = [
  ...organisations.map((organisation) => ({ organisation, name: 'shared', host: '127.0.0.1' })),
  { organisation: 'acme', name: stacks.otter, host: `${stacks.otter}.stacks.test` },
  { organisation: 'birch', name: stacks.heron, host: `${stacks.heron}.stacks.test` },
];
const paths = { chat: '/v1/chat/completions', messages: '/v1/messages' } as const;

/** Returns the result of each request, which must be equal at both gateways: `served`, or a status and error type. */
async function answers(): Promise<Map<string, string>> {
  const found = new Map<string, string>();
  for (const { organisation, name, host } of hosts)
    for (const asked of models)
      for (const [operation, path] of Object.entries(paths)) {
        const body = chatBody(asked, { max_tokens: 5 });
        const key = fleet.keys.get(organisation) ?? '';
        const labels = await Promise.all(
          fleet.gateways.map(async ({ ready }) => {
            const answer = await call({
              port: Number(new URL(ready.api).port),
              method: 'POST',
              path,
              host,
              key,
              body,
            });
            const { error } = JSON.parse(answer.content) as { error?: { type: string } };
            return error === undefined ? 'served' : `${answer.status} ${error.type}`;
          }),
        );
        const question = [organisation, name, asked, operation].join(' ');
        expect([question, labels[1]]).toEqual([question, labels[0]]);
        found.set(question, labels[0] ?? '');
      }
  return found;
}

const servedOr = (label: string): string => (label.startsWith('served') ? 'served' : label);

/**
 * Returns the predicted change of each request. Being served by other capacity does not count, because clients cannot see it.
 */
function said({ recorded }: Effect): Record<string, string> {
  const groups = (recorded?.groups ?? [])
    .map((group) => ({ ...group, from: servedOr(group.from), to: servedOr(group.to) }))
    .filter(({ from, to }) => from !== to);
  return Object.fromEntries(
    groups.map(({ organisation, host, model: of, operation = 'chat', from, to }) => [
      `${organisation} ${host} ${of} ${operation}`,
      `${from} -> ${to}`,
    ]),
  );
}

test(
  `Effect: ${commands} random commands change exactly the answers that their effect named`,
  async () => {
    let before = await answers();
    const kinds = new Map<string, number>();
    let turnedAll = 0;
    for (let n = 0; n < commands; ) {
      const asked = oneOf(drawn)();
      const effect = await fleet.effect(asked).catch(() => undefined);
      if (effect === undefined) continue;
      n++;
      const path = `${asked.path}?force=true`;
      await fleet.operator.call(asked.method as 'POST', path as '/fleet/apply', asked.body);
      await fleet.settle();
      const after = await answers();
      const turned = [...before]
        .map(([question, from]) => [question, from, after.get(question) ?? ''] as const)
        .filter(([, from, to]) => from === 'served' && from !== to)
        .map(([question, from, to]) => [question, `${from} -> ${to}`] as const);
      const what = `seed ${seed}, command ${n}: ${JSON.stringify(asked)}`;
      expect([what, said(effect)]).toEqual([what, Object.fromEntries(turned)]);
      turnedAll += turned.length;
      const kind = `${asked.method} ${asked.path.split('/')[1]}`;
      kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
      before = after;
    }
    expect(turnedAll).toBeGreaterThan(0);
    process.stdout.write(
      `${turnedAll} answers turned by ${commands} commands: ${JSON.stringify([...kinds])}\n`,
    );
  },
  scaledMs(600_000),
);
