/**
 * Cuts gateways off from Kafka while a key is revoked. Each gateway must refuse the key within 60 s of the acknowledgement,
 * whether it is left alone, restarted repeatedly, or frozen with a request waiting in its socket. Once reconnected, gateways
 * must accept every key that was not revoked, and no other.
 */

import { request } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';
import { startKafka } from '../kafka/broker.ts';
import type { Door } from '../kafka/door.ts';
import { until } from '../support/until.ts';
import { ChaosFleet, complete, createKey, type Gateway, revokeKey } from './fleet.ts';
import { coldFaults, coldStart } from './outage.ts';
import { Watch } from './watch.ts';

export interface CutOffOptions {
  readonly how: 'refuse' | 'silent';
  /** Time between restarts of the gateway that is restarted repeatedly, in ms. */
  readonly restartEveryMs: number;
  /** Time for which some gateways stay frozen, in ms. It also determines how long all of them are cut off. */
  readonly frozenMs: number;
  /** Longest time until keys that were not revoked must be accepted again, in s. Defaults to 2. */
  readonly backSecondsMax?: number;
  readonly say?: (progress: string) => void;
}

export interface CutOffFigures {
  readonly how: string;
  /**
   * Time for which each gateway accepted the revoked key after the acknowledgement, in s. Negative if it last accepted the
   * key earlier.
   */
  readonly acceptedForSeconds: Readonly<Record<string, number>>;
  /** Status of each request that waited while its gateway was frozen. */
  readonly waiting: Readonly<Record<string, number>>;
  readonly restarts: number;
  /** Longest time until a gateway that was started while cut off served requests, in s. */
  readonly startSecondsMax: number;
  readonly coldStart: Awaited<ReturnType<typeof coldStart>>;
  /** Time from the reconnection until an active key was accepted again, in s. */
  readonly backAfterSeconds: Readonly<Record<string, number>>;
  readonly faults: readonly string[];
}

const promisedSeconds = 60;
/** Pause between two requests of a watch, in ms. It is long because many watches run for a minute. */
const askEveryMs = 100;

export async function cutOff(options: CutOffOptions): Promise<CutOffFigures> {
  const kafka = await startKafka({ doors: 1 });
  const fleet = new ChaosFleet(kafka);
  try {
    return await run(fleet, kafka.doors[0]!, options);
  } finally {
    await fleet.close();
    await kafka.stop();
  }
}

async function run(fleet: ChaosFleet, door: Door, options: CutOffOptions): Promise<CutOffFigures> {
  const { how, restartEveryMs, frozenMs, backSecondsMax = 2, say } = options;
  const plane = await fleet.plane('plane');
  const active = await fleet.furnish(plane);
  const key = await createKey(plane);
  const names = ['alone', 'restarted', 'frozen'] as const;
  const gateways = new Map<string, Gateway>();
  for (const name of names) gateways.set(name, await fleet.gateway(name, door.url));
  // These gateways are restarted while cut off, to see what they then answer.
  const cold = [
    await fleet.gateway('fence', door.url),
    await fleet.gateway('serve', door.url, '--when-stale', 'serve'),
  ];
  // This gateway is not cut off but sleeps. When it wakes up, its last proof of freshness is as old as its sleep is long.
  gateways.set('asleep', await fleet.gateway('asleep'));
  for (const gateway of [...gateways.values(), ...cold])
    await until(async () => (await complete(gateway, key)) === 200);
  const of = (name: string) => () => gateways.get(name)!;
  const watches = new Map([...names, 'asleep'].map((name) => [name, new Watch(of(name), key, askEveryMs)]));
  const kept = new Map([...names, 'asleep'].map((name) => [name, new Watch(of(name), active, askEveryMs)]));
  await pause(300);

  door.shut(how);
  const sleepers = ['frozen', 'asleep'].map((name) => ({ name, gateway: gateways.get(name)! }));
  for (const { name, gateway } of sleepers) {
    // Stops the watches, because their requests would freeze with the gateway and hide the one request whose answer counts.
    await Promise.all([watches.get(name)!.stop(), kept.get(name)!.stop()]);
    gateway.child.kill('SIGSTOP');
  }
  const waiting = sleepers.map(({ name, gateway }) => ({ name, answer: answerOf(gateway, key.value) }));
  await revokeKey(plane, key);
  const acknowledgedMs = performance.now();
  const frozenUntilMs = acknowledgedMs + frozenMs;
  const starting = Promise.all(cold.map((gateway) => gateway.end('SIGKILL'))).then(() =>
    coldStart(fleet, active, door.url),
  );
  let restarts = 0;
  let startMsMax = 0;
  while (performance.now() < frozenUntilMs - restartEveryMs / 2) {
    await gateways.get('restarted')!.end('SIGKILL');
    const startedMs = performance.now();
    gateways.set('restarted', await fleet.gateway('restarted', door.url));
    startMsMax = Math.max(startMsMax, performance.now() - startedMs);
    restarts++;
    say?.(`start ${restarts} while cut off took ${Math.round(performance.now() - startedMs)} ms`);
    await pause(Math.max(0, restartEveryMs - (performance.now() - startedMs)));
  }
  await pause(Math.max(0, frozenUntilMs - performance.now()));
  const coldStarts = await starting;
  for (const { gateway } of sleepers) gateway.child.kill('SIGCONT');
  const answers: Record<string, number> = {};
  for (const { name, answer } of waiting) answers[name] = await answer;
  for (const name of ['frozen', 'asleep']) {
    watches.set(name, new Watch(of(name), key, askEveryMs));
    kept.set(name, new Watch(of(name), active, askEveryMs));
  }
  await pause(Math.max(500, acknowledgedMs + 48_000 - performance.now()));

  door.reopen();
  const reopenedMs = performance.now();
  const backAfterSeconds: Record<string, number> = {};
  for (const [name, watch] of kept) {
    await until(() => watch.changes.at(-1)?.status === 200);
    backAfterSeconds[name] = Math.round(Math.max(0, watch.changes.at(-1)!.atMs - reopenedMs)) / 1000;
  }
  for (const [, watch] of watches) await until(() => watch.changes.at(-1)?.status === 401);
  await Promise.all([...watches.values(), ...kept.values()].map((watch) => watch.stop()));

  const faults = coldFaults(coldStarts);
  const acceptedForSeconds: Record<string, number> = {};
  for (const [name, { lastAcceptedMs }] of watches) {
    const acceptedFor = (lastAcceptedMs - acknowledgedMs) / 1000;
    acceptedForSeconds[name] = Number.isFinite(acceptedFor) ? Math.round(acceptedFor * 10) / 10 : -1;
    if (acceptedFor > promisedSeconds) faults.push(`${name} accepted the key for ${acceptedFor} s`);
  }
  for (const [name, status] of Object.entries(answers))
    if (status !== 401 && status !== 503)
      faults.push(`${name} answered ${status} to the request that waited`);
  if (Math.max(...Object.values(backAfterSeconds)) > backSecondsMax)
    faults.push(`active keys were accepted after ${JSON.stringify(backAfterSeconds)} s`);
  const startSecondsMax = Math.round(startMsMax / 10) / 100;
  return {
    how,
    acceptedForSeconds,
    waiting: answers,
    restarts,
    startSecondsMax,
    coldStart: coldStarts,
    backAfterSeconds,
    faults,
  };
}

/** Returns the status of one completion over a connection of its own, without a time-out. */
function answerOf({ ready }: Gateway, key: string): Promise<number> {
  return new Promise((resolve) => {
    const asked = request(`${ready.api}/chat/completions`, {
      method: 'POST',
      agent: false,
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    });
    asked.on('response', (answer) => {
      answer.resume();
      resolve(answer.statusCode ?? 0);
    });
    asked.on('error', () => resolve(0));
    asked.end(JSON.stringify({ model: 'echo-small', messages: [{ role: 'user', content: 'hello' }] }));
  });
}
