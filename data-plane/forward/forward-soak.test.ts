import { Agent } from 'node:http';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Fault } from '../../dev/simulator/behaviour.ts';
import { type SimNode, startSimNode } from '../../dev/simulator/sim-node.ts';
import type { Dialect } from '../../schemas/names.ts';
import { runs } from '../../test/support/budget.ts';
import {
  type Answer,
  type Ended,
  post,
  routeTo,
  startForwardServer,
} from '../../test/support/forward-server.ts';
import { until } from '../../test/support/until.ts';

const faults: readonly Fault[] = [
  { kind: 'refuse' },
  { kind: 'stall' },
  { kind: 'stall-after', afterEvents: 2 },
  { kind: 'stall-after', afterEvents: 2, commentEveryMs: 5 },
  { kind: 'status', status: 500 },
  { kind: 'status', status: 400 },
  { kind: 'error-frame-then-done', afterEvents: 2 },
  { kind: 'error-frame-no-done', afterEvents: 0 },
  { kind: 'finish-abort', finishReason: 'abort' },
  { kind: 'cut', afterEvents: 3, reset: false },
  { kind: 'cut', afterEvents: 3, reset: true },
  { kind: 'clean-end-without-done', afterEvents: 3 },
  { kind: 'empty-chunk-end', afterEvents: 2 },
  { kind: 'slow-loris', part: 'body', everyMs: 1 },
  { kind: 'garbage', afterEvents: 1 },
  { kind: 'huge-event', bytes: 2_000_000 },
  { kind: 'endless-headers', everyMs: 1 },
  { kind: 'redirect', location: 'http://127.0.0.1:1/' },
  { kind: 'extra-after-done' },
  { kind: 'duplicate-finish' },
  { kind: 'content-type', contentType: 'text/plain' },
  { kind: 'latency', firstTokenMs: 20, betweenTokensMs: 2 },
];

interface Plan {
  readonly kind: 'stream' | 'whole' | 'embeddings';
  readonly words: number;
  /** ms after which the client leaves; undefined: it stays. */
  readonly leavesMs: number | undefined;
}

const requests = runs({ fast: 400, full: 2000 });

const plans = fc.array(
  fc.record({
    kind: fc.constantFrom<Plan['kind']>('stream', 'stream', 'whole', 'embeddings'),
    words: fc.integer({ min: 1, max: 60 }),
    leavesMs: fc.option(fc.nat(40), { nil: undefined, freq: 2 }),
  }),
  { minLength: requests, maxLength: requests },
);

/** What the client saw and what is billed must agree. */
function check(plan: Plan, seen: Answer, ended: Ended | undefined): void {
  if (ended === undefined) {
    // The client left before its request was read.
    expect(plan.leavesMs).toBeDefined();
    return;
  }
  expect(ended.kind).not.toBe('fault');
  const isWhole = seen.clean && seen.status === 200;
  if (isWhole) expect(ended.kind).toBe('completed');
  if (isWhole && plan.kind === 'stream') expect(seen.text).toMatch(/\[DONE\]\n\n$/);
  if (!seen.clean) expect(seen.text).not.toMatch(/\[DONE\]\n\n$/);
  if (plan.leavesMs !== undefined) return;
  if (ended.kind === 'completed') expect(isWhole).toBe(true);
  if (ended.kind === 'ended-early') expect(ended.by).not.toBe('client');
  if (ended.kind === 'refused') expect(seen.status).toBeGreaterThanOrEqual(400);
}

async function startNodes(): Promise<readonly SimNode[]> {
  const dialects: readonly Dialect[] = ['vllm', 'sglang', 'llamacpp'];
  return Promise.all(
    dialects.map((dialect, at) => {
      // Each node spoils about every third request, each time in another way.
      const rules = faults.map((fault, index) => ({
        match: { afterRequests: index + at, everyNth: 60 },
        fault,
      }));
      return startSimNode({ models: ['m'], tokensPerSecond: 2000, dialect, behaviour: { rules } });
    }),
  );
}

test('many requests with clients that leave and nodes that fail leave nothing behind, and bill what was delivered', async () => {
  const warnings: Error[] = [];
  const onWarning = (warning: Error): void => void warnings.push(warning);
  process.on('warning', onWarning);
  const nodes = await startNodes();
  const dialects: readonly Dialect[] = ['vllm', 'sglang', 'llamacpp'];
  const server = await startForwardServer({
    candidates: nodes.map((node, at) =>
      routeTo(node.url, { node: `n${at}`, dialect: dialects[at] ?? 'vllm' }),
    ),
    settings: { firstEventMs: 100, betweenEventsMs: 100, wholeAnswerMs: 200, betweenBytesMs: 100 },
  });
  const agent = new Agent({ keepAlive: true, maxSockets: 60 });
  const seed = Number(process.env['SEED'] ?? Date.now());
  const [wanted = []] = fc.sample(plans, { seed, numRuns: 1 });
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
    await Promise.all(Array.from({ length: 60 }, worker));
    await until(() => server.load.inFlightTotal() === 0);
    for (const [at, plan] of wanted.entries())
      check(plan, seen[at] as Answer, server.endedByTest.get(String(at)));
    const kinds = [...server.endedByTest.values()].map(({ kind }) => kind);
    for (const kind of ['completed', 'refused', 'ended-early'] as const) {
      expect(kinds.filter((one) => one === kind).length).toBeGreaterThan(requests / 40);
    }
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
  { kind, words, leavesMs }: Plan,
  test: string,
): Promise<Answer> {
  const messages = [{ role: 'user', content: `say ${words} words` }];
  const asked =
    kind === 'embeddings'
      ? post(`${url}/v1/embeddings`, { model: 'm', input: 'a' }, { agent, headers: { 'x-test': test } })
      : post(
          `${url}/v1/chat/completions`,
          { model: 'm', messages, stream: kind === 'stream' },
          { agent, headers: { 'x-test': test } },
        );
  if (leavesMs === undefined) return asked.answer;
  const leaving = setTimeout(() => asked.request.destroy(), leavesMs);
  const answer = await asked.answer;
  clearTimeout(leaving);
  return answer;
}
