/**
 * Writes hostile records to the control log. In each case two folds read the same records in batches of different sizes.
 * Neither may throw, and both must reach the same state. Some records also go to the log of a real control plane and gateway.
 * Both must end at the same position as the fuzzer's own fold of that log.
 */
import { setTimeout as pause } from 'node:timers/promises';
import type { ControlLog, LogRecord } from '../../shared/log/core/control-log.ts';
import { openLog } from '../../shared/log/open-log.ts';
import { memorySnapshot } from '../../shared/snapshot/open-snapshot.ts';
import { Replicator } from '../../shared/snapshot/replicator.ts';
import type { Snapshot } from '../../shared/snapshot/snapshot.ts';
import { verify } from '../../shared/snapshot/verify.ts';
import { ChainWriter } from '../support/commits.ts';
import type { Note, Target } from './campaign.ts';
import type { Draw } from './draw.ts';
import { FuzzFleet } from './fleet.ts';
import { FleetTarget } from './fleet-target.ts';
import { drawRecords, recordBytes, signatureOf } from './log-records.ts';

/** Only one case in four also writes to the real log, because each write flushes the disk. */
const realOneIn = 4;
const standMs = 30_000;

export const logTarget: Target = {
  name: 'log',
  start: async () => {
    const fleet = await FuzzFleet.start();
    const log = await openLog(fleet.logUrl, { topic: 'headgate.control' });
    return new LogTarget(fleet, log);
  },
};

class LogTarget extends FleetTarget {
  readonly workers = 1;
  readonly #log: ControlLog;
  readonly #snapshot = memorySnapshot();
  readonly #replicator: Replicator;
  #written = 0;
  #accepted = 0;

  constructor(fleet: FuzzFleet, log: ControlLog) {
    super(fleet);
    this.#log = log;
    this.#replicator = new Replicator({ snapshot: this.#snapshot, log });
    this.#replicator.start();
  }

  async tryCase(draw: Draw, note: Note): Promise<string[]> {
    if (draw.below(realOneIn) === 0) return this.#appendToReal(draw, note);
    const writer = new ChainWriter();
    const opening = writer.open();
    const records = [opening, ...drawRecords(draw, writer.head, { offset: 1, count: draw.between(1, 25) })];
    note(JSON.stringify(records.map(({ value }) => value.toString('base64'))));
    const [one, other] = [memorySnapshot(), memorySnapshot()];
    try {
      fold(one, records, () => records.length);
      fold(other, records, () => draw.between(1, 5));
      this.#accepted += one.seq;
      return differences(one, other);
    } finally {
      one.close();
      other.close();
    }
  }

  async #appendToReal(draw: Draw, note: Note): Promise<string[]> {
    await this.#replicator.caughtUp(30_000);
    const value = recordBytes(draw, this.#snapshot.head, false);
    note(value);
    await this.#log.append(value, signatureOf(draw));
    this.#written++;
    return this.#replicator.fault === undefined
      ? []
      : [`a reader stopped for good: ${this.#replicator.fault.message}`];
  }

  override async settle(): Promise<void> {
    const untilMs = performance.now() + standMs;
    for (;;) {
      await this.#replicator.caughtUp(30_000);
      const wanted = `${this.#snapshot.seq} ${this.#snapshot.digest()}`;
      const standing = await this.#standing().catch((error: Error) => [error.message]);
      if (standing.every((one) => one === wanted)) break;
      if (performance.now() > untilMs) {
        this.found.push(`the processes are at ${standing.join(' and ')}, a fold by the fuzzer at ${wanted}`);
        break;
      }
      await pause(200);
    }
    await super.settle();
  }

  /** Returns the positions and digests of the control plane and the gateway. */
  async #standing(): Promise<string[]> {
    const { position, digest } = await this.fleet.operator.call('GET', '/status');
    const health = await (await fetch(`${this.fleet.gateway.started.ready.metrics}/readyz?verbose`)).text();
    const [, at, of] = /fold at (\d+), digest (\w+)/.exec(health) ?? [];
    return [`${position} ${digest}`, `${at} ${of}`];
  }

  figures(): Record<string, number> {
    return { 'commits folded': this.#accepted, 'records in the real log': this.#written };
  }

  override async close(): Promise<void> {
    await this.#replicator.stop();
    await this.#log.close();
    this.#snapshot.close();
    await super.close();
  }
}

function fold(snapshot: Snapshot, records: readonly LogRecord[], size: () => number): void {
  let rest = records;
  while (rest.length > 0 && snapshot.halt === undefined) {
    const piece = rest.slice(0, size());
    snapshot.apply(piece);
    rest = rest.slice(piece.length);
  }
}

function differences(one: Snapshot, other: Snapshot): string[] {
  const faults: string[] = [];
  const standing = ({ seq, skipped, halt }: Snapshot): string => JSON.stringify({ seq, skipped, halt });
  if (standing(one) !== standing(other))
    faults.push(`two folds stand apart: ${standing(one)} and ${standing(other)}`);
  else if (one.digest() !== other.digest())
    faults.push('two folds of the same records have different digests');
  for (const { differing } of [verify(one.db), verify(other.db)])
    if (differing.length > 0) faults.push(`rows of ${differing.join(', ')} do not match their digest`);
  return faults;
}
