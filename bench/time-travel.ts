/**
 * How long a past state takes in a long log, how long `explain --diff` and the answer before a decision, and how large the
 * history is on the disk. Every state is opened for the first time, and answers what `explain` asks: a key by its hash, its
 * organisation and tier, the routes of a model, the digests. `--events N` sets the log's length, one event a commit.
 */
import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { imagined } from '../control-plane/explain/imagined.ts';
import { historyBytes, openHistory } from '../control-plane/history/history-file.ts';
import { HistoryReader } from '../control-plane/history/queries.ts';
import { pastState } from '../control-plane/history/tables.ts';
import { explainRequestSchema } from '../schemas/explanations.ts';
import type { Database } from '../shared/runtime/sqlite.ts';
import { createLookup } from '../shared/snapshot/lookup.ts';
import { ChainWriter } from '../test/support/commits.ts';
import { seededRandom } from '../test/support/random.ts';
import { longLog } from './support/long-log.ts';

const { values } = parseArgs({
  options: {
    events: { type: 'string', default: '1000000' },
    samples: { type: 'string', default: '300' },
  },
});
const eventCount = Number(values.events);
const samples = Number(values.samples);

function ask(db: Database, random: () => number): void {
  const lookup = createLookup(db);
  const key = db.prepare('SELECT hash FROM api_key LIMIT 1').pluck().get() as Buffer | undefined;
  if (key) lookup.keyOwner(key);
  lookup.tierIncludes('Team', 'echo-small');
  lookup.routes('pool', 'echo-small');
  lookup.isPooled('echo-large');
  db.prepare('SELECT * FROM api_key WHERE organisation = ? LIMIT 50').all(
    `org-${Math.floor(random() * 1000)}`,
  );
  db.prepare('SELECT * FROM node').all();
}

function percentile(times: readonly number[], share: number): number {
  const sorted = [...times].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
}

const folder = mkdtempSync(join(tmpdir(), 'headgate-bench-'));
try {
  const path = join(folder, 'history.db');
  const { snapshot } = openHistory(path, null);
  const writer = new ChainWriter({ log: 'bench' });
  snapshot.apply([writer.open()]);
  let logBytes = 0;
  let foldMs = 0;
  for (const events of longLog(eventCount, 5000)) {
    const records = events.map((event) => writer.add([event]));
    for (const { value } of records) logBytes += value.length;
    const beganMs = performance.now();
    snapshot.apply(records);
    foldMs += performance.now() - beganMs;
  }
  const random = seededRandom(7);
  const reader = new HistoryReader(snapshot, () => ({ position: 0, bytes: 0 }));
  const anywhere = (): number => 2000 + Math.floor(random() * (snapshot.seq - 2000));
  const stateTimes: number[] = [];
  const pairTimes: number[] = [];
  const diffTimes: number[] = [];
  const beforeTimes: number[] = [];
  const state = (seq: number): void => {
    reader.past(seq);
    snapshot.stateAt(pastState(seq), ({ db }) => ask(db, random));
  };
  for (let n = 0; n < samples; n++) {
    const beganMs = performance.now();
    state(anywhere());
    stateTimes.push(performance.now() - beganMs);
    const pairMs = performance.now();
    state(anywhere());
    state(anywhere());
    pairTimes.push(performance.now() - pairMs);
    const at = anywhere();
    const asked = imagined(
      explainRequestSchema.parse({ organisation: `org-${n}`, model: 'echo-small' }),
      { windowUsed: 0, inFlight: 0, poolTokens: 0, freeTurns: 0 },
      0,
    );
    const diffMs = performance.now();
    const { verdict: now, seq } = reader.described(at, asked, 'base');
    reader.described(anywhere(), asked, 'base');
    diffTimes.push(performance.now() - diffMs);
    const beforeMs = performance.now();
    reader.answerBefore(seq - 1, asked, { at: seq, now, candidates: [], view: 'base' });
    beforeTimes.push(performance.now() - beforeMs);
    // Lets the databases that were dropped close.
    await new Promise((resolve) => setImmediate(resolve));
  }
  snapshot.close();
  const round = (value: number, digits = 1): number => Number(value.toFixed(digits));
  const figures = {
    commits: eventCount,
    stateP50Ms: round(percentile(stateTimes, 0.5)),
    stateP95Ms: round(percentile(stateTimes, 0.95)),
    stateMaxMs: round(Math.max(...stateTimes)),
    twoStatesP95Ms: round(percentile(pairTimes, 0.95)),
    twoStatesMaxMs: round(Math.max(...pairTimes)),
    explainDiffP95Ms: round(percentile(diffTimes, 0.95)),
    explainDiffMaxMs: round(Math.max(...diffTimes)),
    answerBeforeP95Ms: round(percentile(beforeTimes, 0.95)),
    microsecondsPerCommit: round((foldMs * 1000) / eventCount),
    logMegabytes: round(logBytes / 1e6),
    historyMegabytes: round(historyBytes(path) / 1e6),
    bytesPerCommit: round(statSync(path).size / eventCount),
  };
  console.table(figures);
  console.log(JSON.stringify(figures));
} finally {
  rmSync(folder, { recursive: true });
}
