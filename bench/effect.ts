/**
 * What the effect of a command costs the thread of the history: a plan loses a model, and each organisation, host and model is
 * decided before and after, and so is a sample of recorded decisions. Processor time, of all and of the longest step, for which
 * others wait. `--keys N` sets the size of the state, `--decisions N` that of the sample.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { effectOn, effectSteps } from '../control-plane/explain/effect.ts';
import { sampledIn } from '../control-plane/explain/sampled.ts';
import { openHistory } from '../control-plane/history/history-file.ts';
import type { DecisionRecord } from '../schemas/decisions.ts';
import type { GatewaySampled } from '../schemas/gateway-requests.ts';
import { atOnce } from '../shared/runtime/slices.ts';
import { ChainWriter, known, sha256 } from '../test/support/commits.ts';

const { values } = parseArgs({
  options: { keys: { type: 'string', default: '1000000' }, decisions: { type: 'string', default: '20000' } },
});
const keyCount = Number(values.keys);
const decisions = Number(values.decisions);
const organisations = Math.min(10_000, keyCount);
const rowsPerCommit = 2_500;
const models = Array.from({ length: 20 }, (_, n) => `model-${n}`);
const tier = { id: 'Starter', rank: 0, requestsPerMinute: 1000, models };

const folder = mkdtempSync(join(tmpdir(), 'headgate-bench-'));
const { snapshot } = openHistory(join(folder, 'history.db'), null);
const writer = new ChainWriter({ log: 'bench' });
const range = (count: number, from = 0): number[] => Array.from({ length: count }, (_, n) => from + n);
const fold = (...events: Parameters<typeof writer.add>[0]) => snapshot.apply([writer.add(events)]);
const owner = { owner: 'control-1', generation: 1 };

snapshot.apply([writer.open()]);
fold(
  known('tier.set', tier),
  ...models.map((id) =>
    known('model.set', { id, family: 'f', added: '2026-01-01T00:00:00.000Z', weight: 1 }),
  ),
  ...models.map((model) => known('pool.model_installed', { model })),
  known('node.registered', {
    ...{ id: 'pool-1', place: { kind: 'pool' }, url: 'http://127.0.0.1:1', dialect: 'vllm', agent: false },
  }),
  known('node.joined', { id: 'pool-1', ...owner }),
  known('node.health_changed', { id: 'pool-1', ...owner, up: true, models }),
);
for (let from = 0; from < organisations; from += rowsPerCommit)
  fold(
    ...range(Math.min(rowsPerCommit, organisations - from), from).map((n) =>
      known('organisation.set', { id: `org-${n}`, name: 'o', tier: 'Starter', anchor: '2026-01-01' }),
    ),
  );
for (let from = 0; from < keyCount; from += rowsPerCommit)
  fold(
    ...range(Math.min(rowsPerCommit, keyCount - from), from).map((n) =>
      known('key.created', {
        ...{ id: `key-${n}`, organisation: `org-${n % organisations}`, name: 'k', hash: sha256(`${n}`) },
        ...{ expires: 'never', expiresAt: null },
      }),
    ),
  );

/** A line of a gateway's sample. */
function sampledLine(n: number): string {
  const key = Math.floor((n * keyCount) / decisions);
  const decision: DecisionRecord = {
    ...{ v: 1, req: `req_${n.toString(16).padStart(32, '0')}`, gateway: 'gw-1', at: Date.now(), position: 1 },
    ...{ host: 'shared', operation: 'chat', organisation: `org-${key % organisations}`, key: `key-${key}` },
    ...{
      header: 'authorization',
      model: models[n % 20],
      promptTokens: 500,
      counted: 'bound',
      maxTokens: 200,
    },
    counters: { windowUsed: 3, inFlight: 1, requests: { here: 3, room: 997 }, poolTokens: 5, freeTurns: 0 },
    ...{ stage: 'answer', served: true, status: 200, capacity: 'pool', node: 'pool-1', outcome: 'completed' },
    usage: { promptTokens: 480, completionTokens: 150 },
    ms: { accepted: 0.1, read: 0.4, shaped: 0.6, decided: 0.8, sent: 1.2, begun: 60, end: 900 },
  };
  return `${JSON.stringify({ requests: 30, decision } satisfies GatewaySampled)}\n`;
}

const texts = range(Math.ceil(decisions / 100)).map((page) =>
  range(Math.min(100, decisions - 100 * page), 100 * page)
    .map(sampledLine)
    .join(''),
);
const change = { ...tier, models: models.slice(1), requestsPerMinute: 500 };
const asked = { events: [known('tier.set', change)], by: 'operator', nowMs: Date.now() };

function processorMs(work: () => unknown): number {
  const from = process.cpuUsage();
  work();
  const { user, system } = process.cpuUsage(from);
  return (user + system) / 1000;
}

const staticMs = processorMs(() => effectOn(snapshot, asked));
const parseMs = processorMs(() => atOnce(sampledIn(texts, undefined)));
let bothMs = 0;
let longestStepMs = 0;
/** Runs it to its end, and measures each step. */
function stepped<Result>(work: Generator<void, Result>): Result {
  for (;;) {
    let step: IteratorResult<void, Result> | undefined;
    const stepMs = processorMs(() => {
      step = work.next();
    });
    bothMs += stepMs;
    longestStepMs = Math.max(longestStepMs, stepMs);
    if (step?.done) return step.value;
  }
}
const { recorded } = stepped(
  effectSteps(snapshot, { ...asked, records: stepped(sampledIn(texts, undefined)) }),
);
const turned = recorded?.groups.reduce((sum, { requests }) => sum + requests, 0);
if (recorded?.decided !== decisions || turned === 0) throw new Error('the sample was not decided');
const megabytes = texts.reduce((sum, { length }) => sum + length, 0) / 1e6;
process.stdout.write(
  [
    `static, ${organisations} organisations × ${models.length} models   ${staticMs.toFixed(0)} ms`,
    `to read ${decisions} decisions (${megabytes.toFixed(1)} MB)   ${parseMs.toFixed(0)} ms`,
    `the whole effect, ${keyCount} keys   ${bothMs.toFixed(0)} ms, its longest step ${longestStepMs.toFixed(0)} ms`,
    JSON.stringify({ staticMs, parseMs, bothMs, longestStepMs, megabytes }),
    '',
  ].join('\n'),
);
snapshot.close();
rmSync(folder, { recursive: true, force: true });
