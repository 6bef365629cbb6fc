/**
 * Scenario 3: a gateway receives SIGTERM while streams run. It must lose readiness at once, but accept requests until the
 * drain delay is over. Streams that fit into the drain time end normally, longer ones are cut, and a second signal ends
 * everything at once.
 */

import { Agent } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';
import { metric } from '../support/process-fleet.ts';
import { until } from '../support/until.ts';
import { ask, type Result } from './clients.ts';
import type { SoakFleet, SoakGateway } from './fleet.ts';

/**
 * With `short`, the streams fit into the drain time. With `long`, they do not. With `twice`, long streams are ended by a
 * second signal.
 */
export type DrainKind = 'short' | 'long' | 'twice';

export interface DrainFigures {
  readonly streams: number;
  readonly completed: number;
  /** Number of streams that ended without a terminating event. */
  readonly cut: number;
  readonly billed: number;
  /** Number of streams that were still running when readiness was lost. */
  readonly runningWhenUnready: number;
  /** Whether a new connection was served after readiness was lost. */
  readonly servedWhileUnready: boolean;
  /** Time from the signal until the process ended, in ms. */
  readonly endedMs: number;
  readonly exitCode: number | null;
}

const delaySeconds = 1;
/** Drain time in seconds. Only `long` reaches it, because there it must cut the streams. */
const timeoutSeconds = { short: 600, long: 1, twice: 600 } as const;
/** Number of words per stream. Nodes generate a thousand words per second. */
const words = { short: 4000, long: 30_000, twice: 30_000 } as const;
const secondSignalMs = 500;
const streamCount = 30;

export async function drain(fleet: SoakFleet, kind: DrainKind): Promise<DrainFigures> {
  await fleet.healNodes();
  const rowsBefore = (await fleet.usageRows()).length;
  const times = ['--drain-delay', String(delaySeconds), '--drain-timeout', String(timeoutSeconds[kind])];
  // Time-outs that are far longer than a busy machine delays a node, so that only the drain can end a stream.
  const waits = ['--first-event-timeout', '30', '--idle-timeout', '30'];
  const gateway = await fleet.gateway(`drain-${kind}`, ...times, ...waits);
  const clients = fleet.clients.filter((client) => !fleet.narrow.includes(client)).slice(0, streamCount);
  const agent = new Agent({ keepAlive: true });
  const wanted = { kind: 'stream', words: words[kind], leavesMs: undefined } as const;
  const asked = clients.map((client) => ask(gateway.ready.api, agent, client, wanted));
  await Promise.all(asked.map(({ head }) => head));
  const signalledMs = performance.now();
  let endedMs = 0;
  const ended = gateway.end('SIGTERM').then(() => {
    endedMs = performance.now() - signalledMs;
  });
  let running = asked.length;
  for (const { seen } of asked)
    void seen.then(() => {
      running -= 1;
    });
  await until(async () => (await fetch(`${gateway.ready.metrics}/readyz`)).status === 503);
  const runningWhenUnready = running;
  const servedWhileUnready = kind === 'short' && (await serves(fleet, gateway));
  if (kind === 'twice') {
    await pause(Math.max(0, secondSignalMs - (performance.now() - signalledMs)));
    gateway.child.kill('SIGTERM');
  }
  const seen = await Promise.all(asked.map((one) => one.seen));
  await ended;
  agent.destroy();
  await shipRest(fleet, kind);
  const ids = new Set(seen.map(({ requestId }) => requestId));
  const rows = (await fleet.usageRows()).slice(rowsBefore);
  return {
    streams: seen.length,
    completed: seen.filter(({ completed }) => completed).length,
    cut: seen.filter(wasCut).length,
    billed: rows.filter(({ requestId }) => ids.has(requestId)).length,
    runningWhenUnready,
    servedWhileUnready,
    endedMs: Math.round(endedMs),
    exitCode: gateway.child.exitCode,
  };
}

async function serves(fleet: SoakFleet, { ready }: SoakGateway): Promise<boolean> {
  const client = fleet.clients.at(-1);
  if (client === undefined) return false;
  const agent = new Agent({ keepAlive: false });
  const wanted = { kind: 'whole', words: 5, leavesMs: undefined } as const;
  return (await ask(ready.api, agent, client, wanted).seen).completed;
}

/** Starts the gateway again, so that it publishes the usage rows that its first run may have left behind. */
async function shipRest(fleet: SoakFleet, kind: DrainKind): Promise<void> {
  const again = await fleet.gateway(`drain-${kind}`);
  await until(async () => (await metric(again, 'headgate_outbox_rows')) === 0);
  await again.end();
}

function wasCut({ status, whole, left }: Result): boolean {
  return status === 200 && !whole && !left;
}
