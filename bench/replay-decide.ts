/**
 * The decision journal and its replay: what adding a decision costs the request's thread (processor time), how many bytes a
 * million decisions take, and how long `headgate replay decide` takes for 100 000 of them. `--decisions N` sets the number.
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { mintRequestId } from '../data-plane/core/request-id.ts';
import { DecisionJournal } from '../data-plane/records/decision-journal.ts';
import { decisionOf } from '../data-plane/records/project.ts';
import { groupHeading, RecordGroupBuffer } from '../data-plane/records/record-group.ts';
import { recordedOf } from '../data-plane/records/recorded.ts';
import type { RequestRecord } from '../data-plane/request/gateway.ts';
import { SeenCounters } from '../data-plane/request/seen-counters.ts';
import { SegmentLog } from '../data-plane/segments/segment-log.ts';
import type { RecordedRequest } from '../schemas/request-record.ts';
import { decideWith, questionOf } from '../shared/decision/question.ts';
import { openLog } from '../shared/log/open-log.ts';
import { createLookup } from '../shared/snapshot/lookup.ts';
import { memorySnapshot } from '../shared/snapshot/open-snapshot.ts';
import { ChainWriter, known, sha256 } from '../test/support/commits.ts';

const { values } = parseArgs({ options: { decisions: { type: 'string', default: '100000' } } });
const count = Number(values.decisions);
const organisations = 100;
const dir = mkdtempSync(join(tmpdir(), 'headgate-bench-'));

const writer = new ChainWriter({ log: 'bench' });
const owner = { owner: 'control-1', generation: 1 };
const records = [writer.open()];
const commit = (...events: Parameters<typeof writer.add>[0]) => records.push(writer.add(events));
commit(known('tier.set', { id: 'Starter', rank: 0, contextTokens: 1000, models: ['echo-small'] }));
commit(known('model.set', { id: 'echo-small', family: 'echo', added: '2026-01-01T00:00:00Z', weight: 1 }));
commit(known('pool.model_installed', { model: 'echo-small' }));
commit(
  known('node.registered', {
    id: 'pool-1',
    place: { kind: 'pool' },
    url: 'http://127.0.0.1:1',
    dialect: 'vllm',
    agent: false,
  }),
  known('node.joined', { id: 'pool-1', ...owner }),
  known('node.health_changed', { id: 'pool-1', ...owner, up: true, models: ['echo-small'] }),
);
for (let n = 0; n < organisations; n++)
  commit(
    known('organisation.set', { id: `org-${n}`, name: 'o', tier: 'Starter', anchor: '2026-01-01' }),
    known('key.created', {
      id: `key-${n}`,
      organisation: `org-${n}`,
      name: 'k',
      hash: sha256(`${n}`),
      expires: 'never',
      expiresAt: null,
    }),
  );
const firstPosition = writer.head.seq;
for (let n = 0; n < 400; n++)
  commit(known(n % 2 === 0 ? 'node.drained' : 'node.undrained', { id: 'pool-1' }));

const snapshot = memorySnapshot();
const lookup = createLookup(snapshot.db);
const kept = new SegmentLog(join(dir, 'records'), { heading: groupHeading });
const group = new RecordGroupBuffer(1000);
const lines: string[] = [];
const perPosition = Math.ceil(count / 401);
for (const record of records) {
  snapshot.apply([record]);
  if (snapshot.seq < firstPosition) continue;
  for (let n = 0; n < perPosition && lines.length < count; n++) lines.push(recordAt(lines.length));
  if (group.count > 0) await kept.append(group.take(), Date.now());
}

/** A line of the journal, with the decision that the rules give at this position. */
function recordAt(n: number): string {
  const request = requestOf(n);
  const recorded = (nowMs: number): RecordedRequest =>
    recordedOf(request, { nowMs, endMs: performance.now(), position: snapshot.seq, isKnown: () => true });
  const asked = decisionOf(recorded(Date.now()), 'gw-1');
  const { verdict } = decideWith(lookup, questionOf(asked));
  if (verdict.kind === 'refused') request.refusal = verdict.refusal;
  const whole = recorded(asked.at);
  group.add(whole);
  return JSON.stringify(decisionOf(whole, 'gw-1'));
}

/** As a served request leaves it. */
function requestOf(n: number): RequestRecord {
  const keyOwner = lookup.keyOwnerById(`key-${n % organisations}`);
  if (keyOwner === undefined) throw new Error('the key is not there');
  const caller = { kind: 'key', owner: keyOwner } as const;
  const target = { kind: 'shared' } as const;
  const promptTokens = n % 40 === 0 ? 5000 : 120;
  const seen = new SeenCounters({
    window: () => ({ used: 3, endsAtMs: 0 }),
    inFlight: () => 1,
    poolTokens: () => 12_345,
    freeTurns: () => 0,
    networkTurns: () => 0,
    visitorTokens: () => 0,
  });
  const startMs = performance.now();
  const [accepted, read, shaped, decided, sent, begun] = [1, 2, 3, 4, 5, 6].map((ms) => startMs + ms);
  return {
    keyHeader: 'authorization',
    status: 200,
    ids: { requestId: mintRequestId(), surface: 'openai' },
    path: '/v1/chat/completions',
    startMs,
    at: { accepted, read, shaped, decided, sent, begun },
    operation: { kind: 'chat' },
    facts: { target, caller, model: 'echo-small', surface: 'openai', promptTokens, maxTokens: 200 },
    ...{ target, caller, seen, model: 'echo-small', position: snapshot.seq },
  } as unknown as RequestRecord;
}

const bytesPerMillion = (kept.bytes / count) * 1e6;
await kept.close();

/** Processor time of the thread of requests: that of others does not count. */
function mainThreadMs(): number {
  return Number(readFileSync(`/proc/self/task/${process.pid}/schedstat`, 'latin1').split(' ', 1)[0]) / 1e6;
}

async function addCost(): Promise<number> {
  const journal = new DecisionJournal({
    folder: join(dir, 'added'),
    gateway: 'gw-1',
    oneIn: 1,
  });
  const sample = Array.from({ length: 1000 }, (_, n) => requestOf(n));
  let added = 0;
  let spentMs = 0;
  for (let round = 0; round < 100; round++) {
    const from = mainThreadMs();
    for (const one of sample)
      journal.add(one, recordedOf(one, { nowMs: 0, endMs: from, position: 1, isKnown: () => true }));
    spentMs += mainThreadMs() - from;
    added += sample.length;
    // As requests would: the thread writes meanwhile.
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  await journal.close();
  return (spentMs * 1000) / added;
}

const addMicroseconds = await addCost();
const log = await openLog(`sqlite:${join(dir, 'log')}`, { topic: 'headgate.control' });
for (const { value } of records) await log.append(value);
await log.close();
const requests = join(dir, 'decisions.jsonl');
writeFileSync(requests, `${lines.join('\n')}\n`);
const from = performance.now();
const run = spawnSync(
  process.execPath,
  [join(import.meta.dirname, '../cli/headgate.js'), 'replay', 'decide', '--requests', requests],
  { env: { ...process.env, HEADGATE_LOG: `sqlite:${join(dir, 'log')}` }, encoding: 'utf8' },
);
const replaySeconds = (performance.now() - from) / 1000;
process.stdout.write(
  `add a decision          ${addMicroseconds.toFixed(2)} µs of the request's thread, sending included\n`,
);
process.stdout.write(`a million decisions     ${(bytesPerMillion / 1e6).toFixed(0)} MB\n`);
process.stdout.write(
  `replay of ${count}      ${replaySeconds.toFixed(1)} s: ${run.stdout.trim()} ${run.stderr.trim()}\n`,
);
process.stdout.write(
  `${JSON.stringify({ addMicroseconds, bytesPerMillion, replaySeconds, exitCode: run.status })}\n`,
);
snapshot.close();
rmSync(dir, { recursive: true, force: true });
