/**
 * The fleet under attack: a control plane with its console, two gateways with the visitors' page, two simulated nodes and an
 * agent. Each is a separate process with a bounded heap. Peak memory is the kernel's figure for the resident set. An
 * address-space limit is no alternative, because it counts what V8 only reserves, and not every container can create a
 * cgroup.
 */
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Fleet } from '../../schemas/events/fleet.ts';
import type { DevAdmin, DevSecret } from '../../tools/dev/dev-admin.ts';
import {
  consoleCookie,
  type GatewayProcess,
  gatewayToken,
  opened,
  type Plane,
  ProcessFleet,
} from '../support/process-fleet.ts';
import type { Launch } from '../support/processes.ts';
import { until } from '../support/until.ts';

export const attacked = 'acme';
/** Organisation whose callers must not notice the attack. */
export const bystander = 'birch';
export const small = 'echo-small';
/** A model that takes a second to answer. */
export const slow = 'echo-slow';
/** A model that only the hostile node serves. */
export const hostileModel = 'echo-hostile';
export const agentNode = 'agent-1';
/** The node whose token the attacker knows. */
export const hostileNode = 'agent-2';
export const freeTurns = 10;
export const formerGatewayToken = 'gateway-token-before-the-rotation';
const heapMiBMax = 400;
export const residentMiBMax = 512;
const stackCount = 10;

type AttackedGateway = GatewayProcess & { readonly ready: { readonly play: string } };

export interface AttackFleetOptions {
  /** URL of the hostile node, which the attacks themselves provide. */
  readonly hostileUrl: string;
  /** Number of additional models in the catalogue. Tables of models by organisation grow with it. */
  readonly extraModels: number;
}

const meter = new URL('../support/turn-meter.mjs', import.meta.url).href.replace('/dist/test/', '/test/');

export class AttackFleet extends ProcessFleet {
  readonly keys: Record<string, DevSecret> = {};
  readonly processes = new Map<string, Launch<unknown>>();
  hostileNodeToken = '';
  readonly #options: AttackFleetOptions;
  #plane: Plane | undefined;
  #gateways: AttackedGateway[] = [];

  private constructor(options: AttackFleetOptions) {
    super({ timeoutMs: 60_000, env: { HEADGATE_GATEWAY_TOKEN_PREVIOUS: formerGatewayToken } });
    this.#options = options;
  }

  static async start(options: AttackFleetOptions): Promise<AttackFleet> {
    const fleet = new AttackFleet(options);
    return opened(fleet, () => fleet.#open());
  }

  get plane(): Plane {
    return present(this.#plane);
  }
  get gateway(): AttackedGateway {
    return present(this.#gateways[0]);
  }
  get operator(): DevAdmin {
    return this.admin(this.plane);
  }
  get console(): string {
    return (this.plane.ready as unknown as { readonly console: string }).console;
  }
  get gatewayToken(): string {
    return gatewayToken;
  }
  folderOf(name: 'plane' | 'gateway-1' | 'log'): string {
    return join(this.dir, name);
  }
  key(organisation: string): string {
    return present(this.keys[organisation]).value;
  }

  /** Returns the session cookie of a member, or of the operator if no person is given. */
  cookieOf(person?: string): Promise<string> {
    const path =
      person === undefined ? '/console/links' : `/organisations/${attacked}/members/${person}/link`;
    return consoleCookie(this.operator, { console: this.console, path });
  }

  /** Returns the names of the processes that have ended, each with its exit status and cause. */
  ended(): string[] {
    return [...this.processes].flatMap(([name, { child, stderr }]) =>
      child.exitCode === null && child.signalCode === null
        ? []
        : [`${name} ended (${child.signalCode ?? child.exitCode}): ${causeIn(stderr())}`],
    );
  }

  /** Returns the peak resident set of each process since the last reset, in MiB. */
  residentMiB(): Record<string, number> {
    return Object.fromEntries(
      [...this.processes].map(([name, { child }]) => [name, peakMiB(child.pid ?? 0)] as const),
    );
  }
  resetResident(): void {
    for (const { child } of this.processes.values()) {
      try {
        writeFileSync(`/proc/${child.pid}/clear_refs`, '5');
      } catch {
        // The process has ended, or the system has no such file. The peak then covers the whole life of the process.
      }
    }
  }

  /** Returns the longest event-loop turn of each attacked process since the last call, in ms of CPU time. */
  async longestTurnsMs(): Promise<Record<string, number>> {
    const metered = [...this.processes].filter(([name]) => name === 'plane' || name.startsWith('gateway'));
    const turns = metered.map(async ([name, { child }]) => {
      const file = this.#turnsOf(name);
      rmSync(file, { force: true });
      child.kill('SIGUSR2');
      let text = '';
      await until(() => {
        text = readIfThere(file);
        return text !== '' || child.exitCode !== null || child.signalCode !== null;
      }, 60_000);
      return [name, Math.round(Number(text))] as const;
    });
    return Object.fromEntries(await Promise.all(turns));
  }

  async #open(): Promise<void> {
    const nodes = ['node-1', 'node-2', 'node-3'].map((name) => {
      const isSlow = name === 'node-3';
      const args = ['--models', isSlow ? slow : small, '--tokens-per-second', isSlow ? '20' : '0'];
      return this.#bounded<{ readonly url: string; readonly metrics: string }>(
        name,
        () => this.simNode(name, ...args) as never,
      );
    });
    const flags = ['--console-port', '0'];
    this.#plane = await this.startPlane('plane', { flags, env: this.#metered('plane') });
    this.processes.set('plane', this.#plane);
    const urls = (await Promise.all(nodes)).map(({ ready }) => ready.url ?? ready.metrics);
    const { operator } = this;
    await operator.apply(fleetOf(urls, this.#options));
    for (const organisation of [attacked, bystander])
      this.keys[organisation] = await operator.createKey(organisation, 'of the attacks');
    this.hostileNodeToken = (await operator.createNodeToken(hostileNode)).value;
    const { admin } = this.plane.ready;
    this.#gateways = await Promise.all(
      ['gateway-1', 'gateway-2'].map((name) =>
        this.#bounded<AttackedGateway['ready']>(name, () =>
          this.serve('gateway', name, ['--play-port', '0', '--control-plane', admin], this.#metered(name)),
        ),
      ),
    );
    const token = (await operator.createNodeToken(agentNode)).value;
    const args = ['node-agent', '--node', agentNode, '--control-plane', admin, '--engine', urls[1] ?? ''];
    await this.#bounded('agent', () =>
      this.start('agent', [...args, '--metrics-port', '0'], { ...bounded, HEADGATE_NODE_TOKEN: token }),
    );
    await until(async () => (await operator.nodes()).find(({ id }) => id === agentNode)?.up === true, 30_000);
    await operator.confirmed(await operator.position(), 30);
  }

  async #bounded<Ready>(name: string, start: () => Promise<Launch<Ready>>): Promise<Launch<Ready>> {
    const started = await start();
    this.processes.set(name, started);
    return started;
  }

  #metered(name: string): Record<string, string> {
    return {
      NODE_OPTIONS: `${bounded.NODE_OPTIONS} --import=${meter}`,
      HEADGATE_TEST_TURNS: this.#turnsOf(name),
    };
  }

  #turnsOf(name: string): string {
    return join(this.dir, `${name}.turns`);
  }
}

const bounded = { NODE_OPTIONS: `--max-old-space-size=${heapMiBMax}` } as const;

function present<Value>(value: Value | undefined): Value {
  if (value === undefined) throw new Error('the fleet is not started');
  return value;
}

function readIfThere(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}

function peakMiB(pid: number): number {
  const kiB = /^VmHWM:\s+(\d+) kB/m.exec(readIfThere(`/proc/${pid}/status`))?.[1];
  return Math.round(Number(kiB ?? 0) / 1024);
}

/** Finds the line of stderr that says why a Node process ended. */
function causeIn(stderr: string): string {
  const lines = stderr.split('\n');
  return (lines.find((line) => /FATAL|Error/.test(line)) ?? lines.at(-2) ?? '').slice(0, 200);
}

function fleetOf(
  [first = '', second = '', third = '']: readonly string[],
  options: AttackFleetOptions,
): Fleet {
  const node = (id: string, url: string, agent = false) => ({ id, url, dialect: 'vllm', agent }) as const;
  const extra = Array.from({ length: options.extraModels }, (_, index) => `wide-${index}`);
  const member = (person: string, role: 'owner' | 'admin' | 'member' | 'viewer') => ({ person, role });
  const stacks = Array.from({ length: stackCount }, (_, index) => ({
    id: `stk-amber-otter-${'2345678923'[index]}${'abcdefghjk'[index]}2f`,
    models: [small],
    nodes: index === 0 ? [node(agentNode, second, true), node(hostileNode, second, true)] : [],
  }));
  return {
    version: 1,
    models: [small, slow, hostileModel, ...extra].map((id) => ({ id, family: 'echo' })),
    tiers: [{ id: 'Wide', models: '*' }],
    pool: {
      models: [small, slow, hostileModel],
      nodes: [
        node('pool-1', first),
        node('pool-2', third),
        { ...node('hostile', options.hostileUrl), models: { [hostileModel]: hostileModel } },
      ],
    },
    anonymous: { freeTurns, models: [slow], concurrency: 50 },
    organisations: [
      {
        ...{ id: attacked, name: 'Acme', tier: 'Wide', stacks },
        members: [member('ana', 'owner'), member('mem', 'member'), member('vic', 'viewer')],
      },
      { id: bystander, name: 'Birch', tier: 'Wide', members: [member('ben', 'owner')] },
    ],
  };
}
