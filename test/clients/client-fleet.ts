/**
 * The fleet for tests with real clients: the fleet of the specification tests, organisations that run into each refusal, a
 * stack that uses the Anthropic API, and a separate port for stacks. Clients reach everything through proxies that count
 * requests.
 */

import type { RefusalType } from '../../schemas/api/refusals.ts';
import { parseBehaviour } from '../simulator/behaviour.ts';
import { chat } from '../support/api.ts';
import { startFleet, type TestFleet } from '../support/fleet.ts';
import { type Held, hold } from '../support/held.ts';
import { specFleet, stacks } from '../support/spec-fleet.ts';
import { openWire, type Wire } from './wire.ts';

/** Stack of acme that uses the Anthropic API and serves echo-large. */
const switchedStack = 'stk-calm-otter-5c5c';

export interface Target {
  readonly url: string;
  readonly key: string;
}

/** A request that causes one particular refusal. `words` is the length of its message. */
export interface Trap extends Target {
  readonly model: string;
  readonly words: number;
}

export type TrappedType = Exclude<
  RefusalType,
  | 'InferenceRateLimitedError'
  | 'NotFoundError'
  | 'PayloadTooLargeError'
  | 'InternalError'
  | 'UnsupportedShapeError'
>;

export interface ClientFleet {
  readonly fleet: TestFleet;
  readonly shared: Wire;
  /** Proxy in front of the port of acme's stack. */
  readonly stack: Wire;
  /** Proxy in front of the port of acme's stack that uses the Anthropic API. */
  readonly switched: Wire;
  /** Key of the organisation on the top tier, which has its own node and stacks. */
  readonly acme: string;
  /** Key of an organisation that only uses the pool. */
  readonly pooled: string;
  readonly traps: Readonly<Record<Exclude<TrappedType, 'InferenceConcurrencyLimitedError'>, Trap>>;
  /** Returns a key whose only slot is in use until the held request leaves. */
  occupied(): Promise<{ key: string; held: Held }>;
  keyOn(tier: string): Promise<{ key: string; organisation: string }>;
  /** Clears the proxies' records and makes all nodes healthy again. */
  reset(): void;
  close(): Promise<void>;
}

const healthy = parseBehaviour({});

export async function startClientFleet(): Promise<ClientFleet> {
  const fleet = await startFleet({
    recordBodies: true,
    gateway: {
      whenStale: 'serve',
      stackPorts: [stacks.otter, switchedStack].map((stack) => ({ stack, port: 0 })),
    },
    fleet: fleetWithTiers,
  });
  const key = async (organisation: string): Promise<string> => (await fleet.key(organisation)).value;
  const [acme, birch, cedar] = await Promise.all([key('acme'), key('birch'), key('cedar')]);
  let organisations = 0;
  const keyOn = async (tier: string): Promise<{ key: string; organisation: string }> => {
    const id = `caller-${++organisations}`;
    await fleet.admin.call('POST', '/organisations', { id, name: id, tier });
    const value = await key(id);
    await fleet.settle();
    return { key: value, organisation: id };
  };
  const [thrifty, narrow, pooled] = [await keyOn('Thrifty'), await keyOn('Narrow'), await keyOn('Pro')];
  const portOf = (stack: string): number =>
    Number(new URL(fleet.gateways[0]?.stacks.find((at) => at.stack === stack)?.url ?? '').port);
  const [shared, stack, switched] = (await Promise.all(
    [fleet.port(), portOf(stacks.otter), portOf(switchedStack)].map(openWire),
  )) as [Wire, Wire, Wire];
  await chat({ port: fleet.port(), key: thrifty.key, model: 'echo-small' });
  const at = (wire: Wire, as: string, model: string, words = 3): Trap => ({
    url: wire.url,
    key: as,
    model,
    words,
  });
  return {
    fleet,
    shared,
    stack,
    switched,
    acme,
    pooled: pooled.key,
    traps: {
      Unauthorized: at(shared, `${acme.slice(0, -1)}~`, 'echo-small'),
      InferenceUnavailableError: at(shared, birch, 'echo-idle'),
      ModelNotInPlanError: at(shared, cedar, 'echo-large'),
      DedicatedOnlyModelError: at(shared, birch, 'echo-bare'),
      TargetNotServingError: at(stack, birch, 'echo-large'),
      InferenceUpsellError: at(shared, thrifty.key, 'echo-small'),
      ContextWindowExceededError: at(shared, narrow.key, 'echo-small', 500),
    },
    keyOn,
    occupied: async () => {
      const one = await keyOn('Slim');
      const node = fleet.nodes['pool-1'];
      node.setBehaviour(parseBehaviour({ rules: [{ match: { times: 1 }, fault: { kind: 'stall' } }] }));
      const held = await hold({ port: fleet.port(), key: one.key, model: 'echo-small', at: node });
      return { key: one.key, held };
    },
    reset: () => {
      for (const wire of [shared, stack, switched]) wire.restart();
      for (const node of Object.values(fleet.nodes)) node.setBehaviour(healthy);
    },
    close: async () => {
      await Promise.all([shared, stack, switched].map((wire) => wire.close()));
      await fleet.close();
    },
  };
}

function fleetWithTiers(urls: Parameters<typeof specFleet>[0]): ReturnType<typeof specFleet> {
  const base = specFleet(urls);
  const models = ['echo-small'];
  return {
    ...base,
    tiers: [
      { id: 'Thrifty', monthlyTokens: 1, models },
      { id: 'Narrow', contextTokens: 100, models },
      { id: 'Slim', concurrency: 1, models },
      { id: 'Minutely', requestsPerMinute: 1, models },
      ...(base.tiers ?? []),
    ],
    organisations: (base.organisations ?? []).map((organisation) =>
      organisation.id !== 'acme'
        ? organisation
        : {
            ...organisation,
            stacks: [
              ...(organisation.stacks ?? []),
              {
                id: switchedStack,
                surface: 'anthropic' as const,
                models: ['echo-large'],
                nodes: [{ id: 'acme-s2', url: urls['acme-s1'], dialect: 'vllm' as const }],
              },
            ],
          },
    ),
  };
}
