/**
 * A control plane with its console before a large fleet: 50 gateways that report, 500 nodes, 10 000 keys, 100 000 commits; other
 * sizes by BENCH_ORGANISATIONS, BENCH_NODES, BENCH_STACKS and BENCH_COMMITS.
 */
import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { controlTopic } from '../../../schemas/commit.ts';
import type { StatusReport } from '../../../schemas/status.ts';
import type { ControlLog } from '../../../shared/log/core/control-log.ts';
import { openLog } from '../../../shared/log/open-log.ts';
import { openStatusLog } from '../../../shared/status/status-log.ts';
import { StatusMac } from '../../../shared/status/status-mac.ts';
import { ChainWriter, known, sha256 } from '../../../test/support/commits.ts';
import { type Started, startProcess } from '../../../test/support/processes.ts';

const {
  BENCH_ORGANISATIONS = 100,
  BENCH_NODES = 500,
  BENCH_STACKS = 0,
  BENCH_COMMITS = 100_000,
} = process.env;
export const size = {
  ...{ gateways: 50, keys: 10_000, organisations: Number(BENCH_ORGANISATIONS) },
  ...{ nodes: Number(BENCH_NODES), stacks: Number(BENCH_STACKS), commits: Number(BENCH_COMMITS) },
} as const;
const operatorToken = 'operator-token-of-the-bench';
const gatewayToken = 'gateway-token-of-the-bench';
const appendedAtOnce = 2000;
const eventsOfCommit = 1000;
/** Another replica than the one that runs, and alive by its reports: so the running one takes no node over and writes nothing. */
const reporter = 'control-2';
const owner = { owner: reporter, generation: 1 };
/** Commands that run together while a tab follows, and the people whose roles they change. */
const commandsAtOnce = 50;
const people = 500;

type Events = Parameters<ChainWriter['add']>[0];

function organisationOf(n: number): string {
  return `org-${n % size.organisations}`;
}

function stackOf(n: number): string {
  return `stk-amber-otter-${n}`;
}

function foundation(): Events {
  return [
    known('tier.set', { id: 'Team', rank: 1, requestsPerMinute: 60, models: '*' }),
    known('model.set', { id: 'echo-small', family: 'echo', added: '2026-01-01T00:00:00Z', weight: 1 }),
    known('pool.model_installed', { model: 'echo-small' }),
    ...Array.from({ length: size.organisations }, (_, n) =>
      known('organisation.set', {
        ...{ id: organisationOf(n), name: `Organisation ${n}`, tier: 'Team', anchor: '2026-01-01' },
      }),
    ),
    ...Array.from({ length: size.stacks }, (_, n) =>
      known('stack.created', { id: stackOf(n), organisation: organisationOf(n), surface: 'openai' }),
    ),
    ...Array.from({ length: size.nodes }, (_, n) =>
      known('node.registered', {
        ...{ id: `node-${n}`, url: `http://127.0.0.1:${9000 + n}`, dialect: 'vllm', agent: true },
        // Every second one is of a stack.
        place: n % 2 === 1 && n < size.stacks ? { kind: 'stack', id: stackOf(n) } : { kind: 'pool' },
      }),
    ),
    // The stacks that have a node.
    ...Array.from({ length: Math.floor(Math.min(size.nodes, size.stacks) / 2) }, (_, n) =>
      known('stack.model_installed', { stack: stackOf(2 * n + 1), model: 'echo-small' }),
    ),
    ...Array.from({ length: size.nodes }, (_, n) => known('node.joined', { id: `node-${n}`, ...owner })),
  ];
}

function eventAt(n: number): Events[number] {
  if (n < size.keys)
    return known('key.created', {
      ...{ id: `key-${n}`, organisation: organisationOf(n), name: `service ${n}`, hash: sha256(`key ${n}`) },
      ...{ expires: 'never', expiresAt: null },
    });
  if (n % 50 === 0)
    return known('member.set', { organisation: organisationOf(n), person: `p-${n}`, role: 'member' });
  const models = n % 3 === 0 ? [] : ['echo-small'];
  return known('node.health_changed', { id: `node-${n % size.nodes}`, ...owner, up: n % 7 !== 0, models });
}

export class LargeFleet {
  readonly #dir: string;
  readonly #log: ControlLog;
  readonly #status: ControlLog;
  readonly #writer: ChainWriter;
  readonly #plane: Started<{ readonly admin: string; readonly console: string }>;
  readonly #incarnations = Array.from({ length: size.gateways }, () => randomUUID());
  readonly #replica = randomUUID();
  readonly #mac = new StatusMac(gatewayToken);
  readonly operatorToken = operatorToken;
  #timer: NodeJS.Timeout | undefined;
  #reports = 0;
  #commands = 0;

  private constructor(
    dir: string,
    logs: readonly [ControlLog, ControlLog],
    writer: ChainWriter,
    plane: Started<{ readonly admin: string; readonly console: string }>,
  ) {
    this.#dir = dir;
    [this.#log, this.#status] = logs;
    this.#writer = writer;
    this.#plane = plane;
  }

  static async start(): Promise<LargeFleet> {
    const dir = mkdtempSync(join(tmpdir(), 'headgate-bench-console-'));
    const url = `sqlite:${join(dir, 'log')}`;
    const log = await openLog(url, { topic: controlTopic }, { durability: 'normal' });
    const writer = new ChainWriter({ log: 'bench' });
    await log.append(writer.open().value);
    const events = foundation();
    for (let at = 0; at < events.length; at += eventsOfCommit)
      await log.append(writer.add(events.slice(at, at + eventsOfCommit)).value);
    for (let written = 0; written < size.commits; written += appendedAtOnce)
      await appendTo(log, writer, written);
    const args = ['control-plane', '--log', url, '--data', join(dir, 'data'), '--name', 'control-1'];
    const ports = ['--port', '0', '--metrics-port', '0', '--console-port', '0'];
    const env = { HEADGATE_OPERATOR_TOKEN: operatorToken, HEADGATE_GATEWAY_TOKEN: gatewayToken };
    const plane = await startProcess<{ admin: string; console: string }>({
      ...{ dir, name: 'plane', args: [...args, ...ports], env, timeoutMs: 120_000 },
    });
    const fleet = new LargeFleet(dir, [log, await openStatusLog(url)], writer, plane);
    try {
      await fleet.#report();
      await fleet.#reached();
    } catch (error) {
      await fleet.close();
      throw error;
    }
    return fleet;
  }

  get console(): string {
    return this.#plane.ready.console;
  }

  get head(): number {
    return this.#writer.head.seq;
  }

  /**
   * So many further commits by commands, some at a time, or as many as there is time for. Not appended to the log from here: the
   * control plane writes checkpoints in between, and then nothing follows a chain that has none of them.
   */
  async command(count: number, msMax: number): Promise<{ readonly done: number; readonly head: number }> {
    const untilMs = performance.now() + msMax;
    let begun = 0;
    let head = 0;
    const work = async (): Promise<void> => {
      while (begun < count && performance.now() < untilMs) {
        begun++;
        const position = await this.#setMember(this.#commands++);
        head = Math.max(head, position);
      }
    };
    await Promise.all(Array.from({ length: commandsAtOnce }, work));
    return { done: begun, head };
  }

  /** A change each time. */
  async #setMember(n: number): Promise<number> {
    const role = Math.floor(n / people) % 2 === 0 ? 'member' : 'viewer';
    const path = `/organisations/${organisationOf(n)}/members/tailed-${n % people}`;
    const answer = await fetch(`${this.#plane.ready.admin}/admin/v1${path}`, {
      method: 'PUT',
      headers: { authorization: `Bearer ${operatorToken}`, 'content-type': 'application/json' },
      body: JSON.stringify({ role }),
    });
    return ((await answer.json()) as { position: number }).position;
  }

  /** Waits until the control plane answers for any position: its history is written after its state. */
  async historyReached(): Promise<void> {
    const path = `/pool?at=${this.head - 1}`;
    while ((await this.admin<{ nodes?: unknown }>(path)).nodes === undefined)
      await new Promise((resolve) => setTimeout(resolve, 500));
  }

  async admin<T>(path: string): Promise<T> {
    const headers = { authorization: `Bearer ${operatorToken}` };
    const answer = await fetch(`${this.#plane.ready.admin}/admin/v1${path}`, { headers });
    return (await answer.json()) as T;
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#plane.end();
    await Promise.all([this.#log.close(), this.#status.close()]);
    rmSync(this.#dir, { recursive: true, force: true });
  }

  async #reached(): Promise<void> {
    while ((await this.admin<{ position: number }>('/status')).position < this.head)
      await new Promise((resolve) => setTimeout(resolve, 100));
  }

  /** Each gateway reports once a second, as far as the control plane is; and the replica that the nodes report to. */
  async #report(): Promise<void> {
    const send = async (): Promise<void> => {
      const { digest, foldVersion, position } = await this.admin<Now>('/status');
      const n = ++this.#reports;
      const at = new Date().toISOString();
      const common = {
        v: 1,
        n,
        at,
        log: 'bench',
        applied: position,
        digest,
        foldVersion,
        freshSeconds: 1,
      } as const;
      const gateways = this.#incarnations.map((incarnation, index): StatusReport => {
        return { ...common, name: `edge-${index}`, kind: 'gateway', incarnation, stalePolicy: 'fence' };
      });
      const replica: StatusReport = {
        ...common,
        name: reporter,
        kind: 'control-plane',
        incarnation: this.#replica,
      };
      const reports = [...gateways, replica].map((report) => {
        const value = Buffer.from(JSON.stringify(report));
        return this.#status.append(value, this.#mac.of(value));
      });
      await Promise.all(reports);
    };
    await send();
    this.#timer = setInterval(() => void send().catch(() => undefined), 1000);
  }
}

interface Now {
  readonly digest: string;
  readonly foldVersion: number;
  readonly position: number;
}

async function appendTo(log: ControlLog, writer: ChainWriter, from: number, count = appendedAtOnce) {
  const records = Array.from({ length: count }, (_, index) => writer.add([eventAt(from + index)]));
  await Promise.all(records.map(({ value }) => log.append(value)));
}
