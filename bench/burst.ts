/**
 * A gateway that is 50 000 commits behind at once (it was away, or a log was restored) and serves meanwhile: what a request waits,
 * compared with the same gateway with nothing to fold, and how long its write-ahead log becomes. Gateway, node and clients are in
 * this process, and latencies are processor time of the process, so that a busy machine gives the same figures: what passes between
 * a request and its answer is the work of requests and of the fold. `--commits N` names another number.
 */
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { toStored } from '../schemas/events.ts';
import { composeCommit, type Head, recordHash } from '../shared/log/core/chain.ts';
import { EmbeddedFile, type NewRecord } from '../shared/log/embedded/embedded-file.ts';
import { embeddedLogPath } from '../shared/log/embedded/embedded-log.ts';
import { openLog } from '../shared/log/open-log.ts';
import { known, sha256 } from '../test/support/commits.ts';
import { startFleet } from '../test/support/fleet.ts';
import { headOf } from '../test/support/log-head.ts';
import { Connection, percentile, requestBytes } from './support/load.ts';

const { values } = parseArgs({ options: { commits: { type: 'string', default: '50000' } } });
const commits = Number(values.commits);
const topic = { topic: 'headgate.control' };
const clients = 10;
const thinkMs = 100;
const quietMs = 15_000;

/** So many keys behind the head, each in a commit of its own. */
function keysBehind(from: Head, organisation: string): NewRecord[] {
  const at = new Date().toISOString();
  let head = from;
  return Array.from({ length: commits }, (_, n) => {
    const id = `key-behind-${n}`;
    const data = { id, organisation, name: `service ${n}`, hash: sha256(id) };
    const events = [toStored(known('key.created', { ...data, expires: 'never', expiresAt: null }))];
    const value = composeCommit({ head, id: `behind-${n}`, at, by: 'bench', events });
    head = { ...head, seq: head.seq + 1, hash: recordHash(value) };
    return { value, signature: null };
  });
}

/** Processor time of this process so far, ms. */
function processorMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}

interface Latencies {
  readonly processor: number[];
  readonly clock: number[];
}

/** Clients that ask, wait for the answer, and think for a while, as long as they are needed. */
async function load(port: number, bytes: Buffer, isNeeded: () => boolean): Promise<Latencies> {
  const latencies: Latencies = { processor: [], clock: [] };
  await Promise.all(
    Array.from({ length: clients }, async (_, client) => {
      const connection = new Connection(port);
      await pause((thinkMs * client) / clients);
      while (isNeeded()) {
        const [beganMs, clockMs] = [processorMs(), performance.now()];
        const status = await connection.send(bytes);
        if (status !== 200) throw new Error(`a request was answered ${status}`);
        latencies.processor.push(processorMs() - beganMs);
        latencies.clock.push(performance.now() - clockMs);
        await pause(thinkMs);
      }
      connection.close();
    }),
  );
  return latencies;
}

function figuresOf({ processor, clock }: Latencies) {
  const at = (values: readonly number[], p: number) =>
    Math.round(percentile(Float64Array.from(values).sort(), p) * 100) / 100;
  const [p50, p99, max] = [at(processor, 50), at(processor, 99), at(processor, 100)];
  return {
    requests: processor.length,
    p50,
    p99,
    max,
    'p50 by the clock': at(clock, 50),
    'p99 by the clock': at(clock, 99),
  };
}

const fleet = await startFleet({ gateway: { whenStale: 'serve' } });
try {
  const { value: key } = await fleet.key('acme');
  // Alone with the log, so that nobody else folds or writes meanwhile.
  await fleet.controlPlane.close();
  const log = await openLog(fleet.logUrl, topic);
  const records = keysBehind(await headOf(log), 'acme');
  await log.close();
  const port = fleet.port();
  const bytes = requestBytes({
    ...{ port, path: '/v1/chat/completions', host: '127.0.0.1' },
    headers: { Authorization: `Bearer ${key}` },
    body: JSON.stringify({
      model: 'echo-small',
      max_tokens: 4,
      messages: [{ role: 'user', content: 'hello' }],
    }),
  });
  const during = (ms: number) => {
    const untilMs = performance.now() + ms;
    return load(port, bytes, () => performance.now() < untilMs);
  };
  await during(quietMs / 3);
  const quiet = figuresOf(await during(quietMs));
  const wal = join(fleet.gatewaySettings(0).dataDir, 'state.db-wal');
  const file = new EmbeddedFile({
    ...{ path: embeddedLogPath(fleet.logUrl.slice('sqlite:'.length), topic) },
    ...{ durability: 'normal', allowTrimmed: false },
  });
  const end = file.end();
  file.append(records, Date.now());
  file.close();
  const beganMs = performance.now();
  const metrics = fleet.gateways[0]?.metrics ?? '';
  let folded = 0;
  let walMegabytes = 0;
  const watch = setInterval(async () => {
    walMegabytes = Math.max(walMegabytes, Math.round(statSync(wal).size / 1e5) / 10);
    const text = await (await fetch(`${metrics}/metrics`)).text();
    folded = Number(/^headgate_fold_applied_offset (\d+)/m.exec(text)?.[1]);
  }, 500);
  const folding = figuresOf(await load(port, bytes, () => folded < end + commits));
  const seconds = Math.round((performance.now() - beganMs) / 100) / 10;
  clearInterval(watch);
  const after = figuresOf(await during(quietMs));
  console.table({ quiet, folding, after });
  const figures = { commits, seconds, walMegabytes, quiet, folding, after };
  console.log(JSON.stringify({ bench: 'burst', unit: 'ms', ...figures }));
} finally {
  await Promise.all(fleet.gateways.map((gateway) => gateway.close()));
  await fleet.close();
}
