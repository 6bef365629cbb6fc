// A gateway that wakes up 100 000 commits behind the log on Kafka and catches up while it serves: how long that takes, and
// its requests' latency meanwhile, compared with that of the same gateway with nothing to fold. BENCH_COMMITS sets how far behind.

import { setTimeout as pause } from 'node:timers/promises';
import { toStored } from '../schemas/events.ts';
import { composeCommit, recordHash } from '../shared/log/core/chain.ts';
import type { ControlLog } from '../shared/log/core/control-log.ts';
import { openLog } from '../shared/log/open-log.ts';
import { ChaosFleet, foldedBy, type Gateway, type Key, model, organisation } from '../test/chaos/fleet.ts';
import { startKafka } from '../test/kafka/broker.ts';
import { sha256 } from '../test/support/commits.ts';
import { headOf } from '../test/support/log-head.ts';
import { atRate, type Measured, percentile, type Target } from './support/load.ts';

const commits = Number(process.env['BENCH_COMMITS'] ?? 100_000);
const perSecond = 100;
const idleSeconds = 10;
const groupSize = 2000;

/** Writes so many keys behind the head of the log, each in a commit of its own. */
async function append(log: ControlLog): Promise<void> {
  let head = await headOf(log);
  const at = new Date().toISOString();
  for (let done = 0; done < commits; done += groupSize) {
    const group: Promise<number>[] = [];
    for (let n = done; n < Math.min(done + groupSize, commits); n++) {
      const id = `key-behind-${n}`;
      const hash = sha256(id);
      const data = {
        id,
        organisation,
        name: `service ${n}`,
        hash,
        expires: 'never',
        expiresAt: null,
      } as const;
      const events = [toStored({ type: 'key.created', data })];
      const record = composeCommit({ head, id: `behind-${n}`, at, by: 'bench', events });
      head = { ...head, seq: head.seq + 1, hash: recordHash(record) };
      group.push(log.append(record));
    }
    await Promise.all(group);
  }
}

function targetOf(gateway: Gateway, key: Key): Target {
  return {
    port: Number(new URL(gateway.ready.api).port),
    path: '/v1/chat/completions',
    host: '127.0.0.1',
    headers: { Authorization: `Bearer ${key.value}` },
    body: JSON.stringify({ model, max_tokens: 4, messages: [{ role: 'user', content: 'hello' }] }),
  };
}

function figuresOf(all: readonly Measured[]) {
  const sorted = Float64Array.from(all.flatMap(({ latencies }) => [...latencies])).sort();
  const at = (p: number) => Math.round(percentile(sorted, p) / 10) / 100;
  const failures = all.reduce((sum, one) => sum + one.failures, 0);
  return { requests: sorted.length, failures, p50: at(50), p99: at(99), max: at(100) };
}

const kafka = await startKafka();
const fleet = new ChaosFleet(kafka);
try {
  const plane = await fleet.plane('plane');
  const key = await fleet.furnish(plane);
  const gateway = await fleet.gateway('gateway', fleet.logUrl, '--when-stale', 'serve');
  // Alone with the log, so that nobody else folds or writes meanwhile.
  await plane.end('SIGKILL');
  const target = targetOf(gateway, key);
  await atRate(target, perSecond, 3);
  const idle = figuresOf([await atRate(target, perSecond, idleSeconds)]);
  const { position } = await foldedBy(gateway);
  gateway.child.kill('SIGSTOP');
  const log = await openLog(fleet.logUrl, { topic: 'headgate.control' });
  await append(log);
  await log.close();
  gateway.child.kill('SIGCONT');
  const wokenMs = performance.now();
  const during: Measured[] = [];
  // Asked for between the loads: a scrape of metrics takes its time, too.
  do during.push(await atRate(target, perSecond, 0.25));
  while ((await foldedBy(gateway)).position < position + commits);
  const seconds = Math.round((performance.now() - wokenMs) / 100) / 10;
  await pause(500);
  const after = figuresOf([await atRate(target, perSecond, idleSeconds)]);
  const catchingUp = figuresOf(during);
  console.table({ idle, catchingUp, after });
  console.log(JSON.stringify({ bench: 'catch-up', unit: 'ms', commits, seconds, idle, catchingUp, after }));
} finally {
  await fleet.close();
  await kafka.stop();
}
