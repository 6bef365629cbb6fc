/**
 * Measures how long callers wait for the first token, in simulated time. It compares the placement rule in
 * data-plane/nodes/affinity.ts on one, two and four gateways with round robin, and with an oracle that knows every cache and
 * queue. A node reads one prompt at a time, skips the cached prefix, and writes answers in parallel. Usage: `npm run bench --
 * placement [workload …] [--nodes 128]`
 */
import { parseArgs } from 'node:util';
import { Affinity } from '../../data-plane/nodes/affinity.ts';
import { NodeLoad } from '../../data-plane/nodes/load.ts';
import { hashPrefixes } from '../../data-plane/surfaces/common/prompt-prefix.ts';
import { RollingHash } from '../../data-plane/surfaces/common/rolling-hash.ts';
import { decodePlacements, encodePlacements } from '../../schemas/records/placements.ts';
import { seededRandom } from '../../test/support/random.ts';

type Message = { role: 'system' | 'user' | 'assistant'; content: string };

const tokensPerSecond = 8000;
const cacheTokens = 400_000;
const answerMs = 250;
const answerTokens = 20;
const blockTokens = 16;
const charactersPerToken = 4;
/** Interval between two reports of a gateway, in ms. Other gateways read each report `lateMs` after it was sent. */
const reportEveryMs = 200;
const lateMs = 50;

class SimulatedTime {
  nowMs = 0;
  /** Waiting sleepers, sorted by wake-up time, with the earliest last so that it can be popped. */
  readonly #waiting: { readonly atMs: number; readonly go: () => void }[] = [];

  sleep(ms: number): Promise<void> {
    const atMs = this.nowMs + ms;
    let [low, high] = [0, this.#waiting.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#waiting[middle]?.atMs ?? 0) > atMs) low = middle + 1;
      else high = middle;
    }
    return new Promise((go) => void this.#waiting.splice(low, 0, { atMs, go }));
  }

  async run(work: Promise<unknown>): Promise<void> {
    let isDone = false;
    void work.then(() => {
      isDone = true;
    });
    for (;;) {
      // Let the code that the last event resumed run on until it waits again.
      await new Promise(setImmediate);
      const next = isDone ? undefined : this.#waiting.pop();
      if (next === undefined) return;
      this.nowMs = next.atMs;
      next.go();
    }
  }
}

/** Returns the hashes of a prompt's blocks. Each hash depends on the tenant and on all text up to the end of the block. */
function hashBlocks(tenant: string, messages: readonly Message[]): number[] {
  const hash = new RollingHash();
  hash.add(tenant);
  const blocks: number[] = [];
  const size = blockTokens * charactersPerToken;
  const text = messages.map(({ content }) => content).join('\n');
  for (let at = 0; at + size <= text.length; at += size) {
    hash.add(text, at, at + size);
    blocks.push(hash.value);
  }
  return blocks;
}

class SimulatedNode {
  readonly node: string;
  /** Cached blocks, with the least recently used one first. */
  readonly #cached = new Set<number>();
  #freeMs = 0;
  served = 0;
  askedBlocks = 0;
  cachedBlocks = 0;

  constructor(node: string) {
    this.node = node;
  }

  #missing(blocks: readonly number[]): number {
    const at = blocks.findIndex((block) => !this.#cached.has(block));
    return at === -1 ? 0 : blocks.length - at;
  }

  /** Returns the time in ms until the first token of a prompt that arrives now. */
  wait(blocks: readonly number[], nowMs: number): number {
    return (
      Math.max(0, this.#freeMs - nowMs) + 2 + (this.#missing(blocks) * blockTokens * 1000) / tokensPerSecond
    );
  }

  take(blocks: readonly number[], nowMs: number): number {
    const waitMs = this.wait(blocks, nowMs);
    this.#freeMs = nowMs + waitMs;
    this.served += 1;
    this.askedBlocks += blocks.length;
    this.cachedBlocks += blocks.length - this.#missing(blocks);
    for (const block of blocks) {
      this.#cached.delete(block);
      this.#cached.add(block);
    }
    for (const block of this.#cached) {
      if (this.#cached.size <= cacheTokens / blockTokens) break;
      this.#cached.delete(block);
    }
    return waitMs;
  }
}

type Ask = (tenant: string, messages: readonly Message[]) => Promise<string>;

function text(tokens: number, seed: number): string {
  const random = seededRandom(seed);
  const words: string[] = [];
  for (let at = 0; at < tokens; at += 2) words.push(String(1_000_000 + Math.floor(random() * 8_999_999)));
  return words.join(' ');
}

/** Calls `run` `count` times, with at most `atOnce` calls at the same time. */
async function pool(count: number, atOnce: number, run: (at: number) => Promise<void>): Promise<void> {
  let next = 0;
  const runner = async (): Promise<void> => {
    while (next < count) await run(next++);
  };
  await Promise.all(Array.from({ length: atOnce }, runner));
}

const tenants = ['acme', 'birch', 'cedar', 'dahl'];
const pickTenant = (at: number): string => tenants[at % tenants.length] ?? '';

interface Talk {
  readonly tenant: string;
  readonly system: string;
  readonly turns: number;
  readonly userTokens: number;
  readonly thinkMs: number;
}

/** Builds the workloads. `times` scales the number of conversations, so that each node has as many as with 8 nodes. */
function makeWorkloads(ask: Ask, time: SimulatedTime, times: number) {
  const talk = async (id: number, { tenant, system, turns, userTokens, thinkMs }: Talk): Promise<void> => {
    const random = seededRandom(id + 1);
    const messages: Message[] = [{ role: 'system', content: system }];
    for (let turn = 0; turn < turns; turn += 1) {
      messages.push({ role: 'user', content: text(userTokens, id * 100 + turn + 7) });
      const content = await ask(tenant, messages);
      messages.push({ role: 'assistant', content });
      await time.sleep(thinkMs * (0.5 + random()));
    }
  };
  const systems = (tokens: number) => tenants.map((_, at) => text(tokens, at));
  const [small, large] = [systems(400), systems(4000)];
  const chat = { turns: 6, userTokens: 120, thinkMs: 100 };
  const agent = { turns: 20, userTokens: 300, thinkMs: 150 };
  const one = { tenant: 'acme', system: text(6000, 1), turns: 12, userTokens: 200, thinkMs: 150 };
  const of = (list: readonly string[], at: number) => ({
    tenant: pickTenant(at),
    system: list[at % tenants.length] ?? '',
  });
  return {
    chats: () => pool(480 * times, 48 * times, (at) => talk(at, { ...chat, ...of(small, at) })),
    agents: () => pool(96 * times, 48 * times, (at) => talk(at, { ...agent, ...of(large, at) })),
    'one-tenant': () => pool(96 * times, 48 * times, (at) => talk(at, one)),
    burst: async () => {
      for (let burst = 0; burst < 12; burst += 1) {
        const system: Message = { role: 'system', content: text(3000, 900 + burst) };
        const each = (_: unknown, at: number): Promise<string> =>
          ask('acme', [system, { role: 'user', content: `${at} ${text(50, at)}` }]);
        await Promise.all(Array.from({ length: 64 * times }, each));
        await time.sleep(300);
      }
    },
    unlike: () =>
      pool(600 * times, 32 * times, async (at) => {
        await ask(pickTenant(at), [{ role: 'user', content: text(1500, 5000 + at) }]);
      }),
  };
}

type Workload = keyof ReturnType<typeof makeWorkloads>;
const names: readonly Workload[] = ['chats', 'agents', 'one-tenant', 'burst', 'unlike'];
const targets = ['1', '2', '4', 'oracle', 'round robin'];

async function measure(workload: Workload, target: string, count: number) {
  const time = new SimulatedTime();
  const now = (): number => time.nowMs;
  const random = seededRandom(7);
  const nodes = Array.from({ length: count }, (_, at) => new SimulatedNode(`node-${at}`));
  const gateways = Array.from({ length: Number(target) || 0 }, () => {
    const load = new NodeLoad({ now, random });
    return { load, affinity: new Affinity({ load, secret: 'bench', now }) };
  });
  const firstTokenMs: number[] = [];
  let [turn, reportedBytes, choosing] = [0, 0, 0];
  const keepReporting = async (from: number): Promise<void> => {
    await time.sleep((reportEveryMs * from) / gateways.length);
    for (;;) {
      const none = { loads: [], placements: [] };
      const report = gateways[from]?.affinity.report() ?? none;
      const bytes = encodePlacements({ process: `gateway-${from}`, ...report });
      reportedBytes += bytes.length;
      void time.sleep(lateMs).then(() => {
        for (const [at, { affinity }] of gateways.entries()) {
          const received = decodePlacements(bytes);
          if (at !== from && received) affinity.receive(received);
        }
      });
      await time.sleep(reportEveryMs);
    }
  };
  for (const from of gateways.keys()) void keepReporting(from);
  const choose = (tenant: string, messages: readonly Message[], blocks: readonly number[]): SimulatedNode => {
    const nowMs = now();
    if (target === 'round robin') return nodes[turn % count] as SimulatedNode;
    if (target === 'oracle') {
      const waits = nodes.map((node) => node.wait(blocks, nowMs));
      return nodes[waits.indexOf(Math.min(...waits))] as SimulatedNode;
    }
    const prefixes = hashPrefixes({ messages: [...messages] }, undefined);
    const began = performance.now();
    const node = gateways[turn % gateways.length]?.affinity.choose(nodes, {
      tenant,
      group: 'pool m',
      prefixes,
    });
    choosing += performance.now() - began;
    return node as SimulatedNode;
  };
  const ask: Ask = async (tenant, messages) => {
    const blocks = hashBlocks(tenant, messages);
    const node = choose(tenant, messages, blocks);
    const load = gateways[turn++ % (gateways.length || 1)]?.load;
    const waitMs = node.take(blocks, now());
    firstTokenMs.push(waitMs);
    load?.begin(node.node, false);
    await time.sleep(waitMs + answerMs);
    load?.end(node.node, 'answered');
    return text(answerTokens, firstTokenMs.length);
  };
  await time.run(makeWorkloads(ask, time, count / 8)[workload]());
  const sum = (of: (node: SimulatedNode) => number): number => nodes.reduce((all, node) => all + of(node), 0);
  firstTokenMs.sort((a, b) => a - b);
  const at = (part: number): number => firstTokenMs[Math.floor(part * firstTokenMs.length)] ?? 0;
  return {
    requests: firstTokenMs.length,
    'a second': Math.round(firstTokenMs.length / (now() / 1000)),
    'hits %': Math.round((1000 * sum((n) => n.cachedBlocks)) / sum((n) => n.askedBlocks)) / 10,
    'mean ms': Math.round(firstTokenMs.reduce((a, b) => a + b, 0) / firstTokenMs.length),
    'p50 ms': Math.round(at(0.5)),
    'p99 ms': Math.round(at(0.99)),
    'busiest / mean':
      Math.round((100 * Math.max(...nodes.map((n) => n.served)) * count) / firstTokenMs.length) / 100,
    'reports B/s': Math.round(reportedBytes / (gateways.length || 1) / (now() / 1000)),
    'µs a choice': Math.round((10_000 * choosing) / firstTokenMs.length) / 10,
  };
}

const { values, positionals } = parseArgs({
  options: { nodes: { type: 'string', default: '8' } },
  allowPositionals: true,
});
for (const workload of names) {
  if (positionals.length > 0 && !positionals.includes(workload)) continue;
  const figures: Record<string, object> = {};
  for (const target of targets) figures[target] = await measure(workload, target, Number(values.nodes));
  console.log(`${workload}, ${values.nodes} nodes: first token by number of gateways`);
  console.table(figures);
}
