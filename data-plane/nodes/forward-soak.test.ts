import { Agent } from 'node:http';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Dialect } from '../../schemas/names.ts';
import type { Fault } from '../../test/simulator/behaviour.ts';
import { type FaultyNode, startFaultyNode } from '../../test/simulator/faulty-node.ts';
import { runs } from '../../test/support/budget.ts';
import {
  type Answer,
  type Ending,
  post,
  routeTo,
  startForwardServer,
} from '../../test/support/forward-server.ts';
import { until } from '../../test/support/until.ts';

const dialects: readonly Dialect[] = ['vllm', 'sglang', 'llamacpp'];

type Kind = 'stream' | 'whole' | 'embeddings';

interface Trouble {
  readonly fault: Fault;
  /** If set, this trouble affects only requests with the same value of `stream`. */
  readonly stream?: boolean;
  /** How a request ends if its client stays connected, by kind of request if the kind matters. */
  readonly ends: Ending['kind'] | Readonly<Record<Kind, Ending['kind']>>;
}

/** How each kind of request ends if a node's fault affects only streams. */
const streamsOnly = { stream: 'ended-early', whole: 'completed', embeddings: 'completed' } as const;
const cutShort = { stream: 'ended-early', whole: 'refused', embeddings: 'refused' } as const;
const troubles: readonly Trouble[] = [
  { fault: { kind: 'refuse' }, ends: 'refused' },
  { fault: { kind: 'stall' }, ends: 'refused' },
  { fault: { kind: 'stall-after', afterEvents: 2 }, ends: cutShort },
  { fault: { kind: 'stall-after', afterEvents: 2, commentEveryMs: 5 }, ends: cutShort },
  { fault: { kind: 'status', status: 500 }, ends: 'refused' },
  { fault: { kind: 'status', status: 400 }, ends: 'refused' },
  { fault: { kind: 'error-frame-then-done', afterEvents: 2 }, ends: cutShort },
  { fault: { kind: 'error-frame-no-done', afterEvents: 0 }, ends: 'refused' },
  {
    fault: { kind: 'finish-abort', finishReason: 'abort' },
    ends: { stream: 'ended-early', whole: 'refused', embeddings: 'completed' },
  },
  { fault: { kind: 'cut', afterEvents: 3, reset: false }, ends: cutShort },
  { fault: { kind: 'cut', afterEvents: 3, reset: true }, ends: cutShort },
  { fault: { kind: 'clean-end-without-done', afterEvents: 3 }, ends: streamsOnly },
  { fault: { kind: 'empty-chunk-end', afterEvents: 2 }, ends: streamsOnly },
  { fault: { kind: 'slow-loris', part: 'body', everyMs: 50 }, ends: 'refused' },
  { fault: { kind: 'garbage', afterEvents: 1 }, ends: cutShort },
  // Only for streams, because whole answers of this size are allowed but take longer than these tests wait.
  {
    fault: { kind: 'huge-event', bytes: 2_000_000 },
    stream: true,
    ends: { stream: 'refused', whole: 'completed', embeddings: 'completed' },
  },
  { fault: { kind: 'endless-headers', everyMs: 1 }, ends: 'refused' },
  { fault: { kind: 'redirect', location: 'http://127.0.0.1:1/' }, ends: 'refused' },
  { fault: { kind: 'extra-after-done' }, ends: 'completed' },
  { fault: { kind: 'duplicate-finish' }, ends: 'completed' },
  { fault: { kind: 'content-type', contentType: 'text/plain' }, ends: 'refused' },
  { fault: { kind: 'latency', firstTokenMs: 20, betweenTokensMs: 2 }, ends: 'completed' },
];

/** Returns the model name that triggers this trouble on every node. Nodes never spoil the model `m`. */
const modelOf = (trouble: number): string => `m${trouble}`;

interface Plan {
  readonly kind: Kind;
  /** Index of the trouble that the node causes, or undefined if it answers correctly. */
  readonly trouble: number | undefined;
  readonly words: number;
  /** Time after which the client leaves, in ms, or undefined if it stays. */
  readonly leavesMs: number | undefined;
}

const kinds: readonly Kind[] = ['stream', 'stream', 'whole', 'embeddings'];
/** Combinations of every kind of request with each trouble once, and with no trouble twice as often. */
const combinations = kinds.flatMap((kind) =>
  Array.from({ length: troubles.length * 3 }, (_, at) => ({
    kind,
    trouble: at < troubles.length ? at : undefined,
  })),
);
/** Number of requests per combination from clients that stay. Clients that leave send half as many. */
const rounds = runs({ fast: 1, full: 2 });
const requests = rounds * combinations.length * 1.5;

const chances = fc.array(
  fc.record({ words: fc.integer({ min: 1, max: 60 }), leavesMs: fc.nat(40), rank: fc.double() }),
  { minLength: requests, maxLength: requests },
);

function plansOf(seed: number): readonly Plan[] {
  const [drawn = []] = fc.sample(chances, { seed, numRuns: 1 });
  return drawn
    .map(({ words, leavesMs, rank }, at) => {
      const { kind, trouble } = combinations[at % combinations.length] as (typeof combinations)[number];
      const stays = at < rounds * combinations.length;
      return { rank, plan: { kind, trouble, words, leavesMs: stays ? undefined : leavesMs } };
    })
    .sort((a, b) => a.rank - b.rank)
    .map(({ plan }) => plan);
}

function expectedEnd({ kind, trouble }: Plan): Ending['kind'] {
  if (trouble === undefined) return 'completed';
  const { ends } = troubles[trouble] as Trouble;
  return typeof ends === 'string' ? ends : ends[kind];
}

/** Checks that what the client saw agrees with the billed outcome. */
function check(plan: Plan, seen: Answer, ended: Ending | undefined): void {
  if (ended === undefined) {
    // No outcome exists if the client left before its request was read.
    expect(plan.leavesMs).toBeDefined();
    return;
  }
  expect(ended.kind).not.toBe('fault');
  const isWhole = seen.clean && seen.status === 200;
  if (isWhole) expect(ended.kind).toBe('completed');
  if (isWhole && plan.kind === 'stream') expect(seen.text).toMatch(/\[DONE\]\n\n$/);
  if (!seen.clean) expect(seen.text).not.toMatch(/\[DONE\]\n\n$/);
  if (plan.leavesMs !== undefined) return;
  expect(ended.kind, `${plan.kind} with ${JSON.stringify(troubles[plan.trouble ?? -1])}`).toBe(
    expectedEnd(plan),
  );
  if (ended.kind === 'completed') expect(isWhole).toBe(true);
  if (ended.kind === 'ended-early') expect(ended.by).not.toBe('client');
  if (ended.kind === 'refused') expect(seen.status).toBeGreaterThanOrEqual(400);
}

/** Number of requests per round that end in each way, if their clients stay connected. */
const stayingEnds = { completed: 195, refused: 51, 'ended-early': 18 };

async function startNodes(): Promise<readonly FaultyNode[]> {
  const rules = troubles.map(({ fault, stream }, at) => ({
    match: { model: modelOf(at), ...(stream !== undefined && { stream }) },
    fault,
  }));
  const models = ['m', ...troubles.map((_, at) => modelOf(at))];
  return Promise.all(
    dialects.map((dialect) =>
      startFaultyNode({ models, tokensPerSecond: 2000, dialect, behaviour: { rules } }),
    ),
  );
}

test('many requests with leaving clients and failing nodes leave nothing behind, and deliveries are billed', async () => {
  const warnings: Error[] = [];
  const onWarning = (warning: Error): void => void warnings.push(warning);
  process.on('warning', onWarning);
  const nodes = await startNodes();
  const server = await startForwardServer({
    candidates: ({ model }) =>
      nodes.map((node, at) =>
        routeTo(node.url, { node: `n${at}`, dialect: dialects[at] ?? 'vllm', served: model }),
      ),
    settings: { firstEventMs: 3000, betweenEventsMs: 3000, wholeAnswerMs: 6000, betweenBytesMs: 3000 },
  });
  const agent = new Agent({ keepAlive: true, maxSockets: 30 });
  const seed = Number(process.env['SEED'] ?? Date.now());
  const wanted = plansOf(seed);
  let next = 0;
  const seen: Answer[] = [];
  const worker = async (): Promise<void> => {
    for (;;) {
      const at = next++;
      const plan = wanted[at];
      if (plan === undefined) return;
      seen[at] = await ask(server.url, agent, plan, String(at));
    }
  };
  try {
    await Promise.all(Array.from({ length: 30 }, worker));
    await until(() => server.load.inFlightTotal() === 0);
    for (const [at, plan] of wanted.entries())
      check(plan, seen[at] as Answer, server.endedByTest.get(String(at)));
    const staying = wanted.filter(({ leavesMs }) => leavesMs === undefined).map(expectedEnd);
    for (const [kind, count] of Object.entries(stayingEnds))
      expect(staying.filter((one) => one === kind)).toHaveLength(count * rounds);
    await until(() => server.pools.ticker.size === 0 && nodes.every((node) => node.stats().inFlight === 0));
    expect(server.pools.answerBytes.usedBytes).toBe(0);
    for (const socket of server.sockets) {
      expect(socket.listenerCount('close')).toBeLessThan(6);
      expect(socket.listenerCount('timeout')).toBeLessThan(3);
    }
    agent.destroy();
    await until(() => server.sockets.size === 0);
    expect(warnings).toEqual([]);
  } catch (error) {
    throw new Error(`with SEED=${seed}`, { cause: error });
  } finally {
    process.off('warning', onWarning);
    agent.destroy();
    await server.close();
    await Promise.all(nodes.map((node) => node.close()));
  }
}, 60_000);

async function ask(
  url: string,
  agent: Agent,
  { kind, trouble, words, leavesMs }: Plan,
  test: string,
): Promise<Answer> {
  const model = trouble === undefined ? 'm' : modelOf(trouble);
  const messages = [{ role: 'user', content: `say ${words} words` }];
  const asked =
    kind === 'embeddings'
      ? post(`${url}/v1/embeddings`, { model, input: 'a' }, { agent, headers: { 'x-test': test } })
      : post(
          `${url}/v1/chat/completions`,
          { model, messages, stream: kind === 'stream' },
          { agent, headers: { 'x-test': test } },
        );
  if (leavesMs === undefined) return asked.answer;
  const leaving = setTimeout(() => asked.request.destroy(), leavesMs);
  const answer = await asked.answer;
  clearTimeout(leaving);
  return answer;
}
