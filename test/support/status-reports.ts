/** Status reports and boards on an in-memory topic, for tests of what a control plane concludes from reports. */
import { randomUUID } from 'node:crypto';
import { vi } from 'vitest';
import { StatusBoard } from '../../control-plane/gateways/status-board.ts';
import type { StatusReport } from '../../schemas/records/status.ts';
import type { ControlLog } from '../../shared/log/core/control-log.ts';
import { StatusMac } from '../../shared/status/status-mac.ts';
import { MemoryLog, MemoryTopic } from './memory-log.ts';

export const gatewayToken = 'gateway-token-of-these-tests';
export const testMac = new StatusMac(gatewayToken);
export const log1 = 'log-1';

export function reportOf(more: Partial<StatusReport> = {}): StatusReport {
  return {
    ...{ v: 1, name: 'edge-1', kind: 'gateway', incarnation: randomUUID(), n: 1 },
    ...{ at: new Date().toISOString(), log: log1, applied: 10, digest: 'd', foldVersion: 1 },
    ...{ freshSeconds: 1, stalePolicy: 'serve' },
    ...more,
  };
}

export async function publish(log: ControlLog, record: object, mac = testMac): Promise<void> {
  const value = Buffer.from(JSON.stringify(record));
  await log.append(value, mac.of(value));
}

export const topic = (): ControlLog => new MemoryLog(new MemoryTopic());

/** Returns a board that has read the whole topic. */
export async function boardOn(log: ControlLog, mac = testMac): Promise<StatusBoard> {
  const board = new StatusBoard({ log, mac, logger: { warn: () => undefined } });
  board.start();
  await board.readToEnd(5000);
  return board;
}

/** Moves this process's monotonic clock forward. Timers are not moved. */
export function takeMonotonicClock(): { advanceSeconds(seconds: number): void } {
  const real = performance.now.bind(performance);
  let skewMs = 0;
  vi.spyOn(performance, 'now').mockImplementation(() => real() + skewMs);
  return {
    advanceSeconds: (seconds) => {
      skewMs += seconds * 1000;
    },
  };
}
