/**
 * Keeps gateways from being forgotten, however long they are silent (design 4: Revocation confirmed). What the board knows
 * is kept in a file of this replica, and what it knows of silent gateways is published again before the topic drops it, so
 * that every replica knows them: a new one, and one that was down for long. A gateway that ended here and that another
 * replica still remembers is published as ended. `forget` is for a gateway that is gone for good.
 */
import {
  type FleetMemory as FleetMemoryRecord,
  type Forgotten,
  type StatusReport,
  statusBytesMax,
} from '../../schemas/status.ts';
import type { ControlLog } from '../../shared/log/control-log.ts';
import type { Row } from '../../shared/status/fleet-rows.ts';
import type { StatusBoard } from '../../shared/status/status-board.ts';
import type { StatusMac } from '../../shared/status/status-mac.ts';
import type { GatewaysFile, Kept } from './gateways-file.ts';

const sweepMs = 2000;
/** A gateway that reports needs no memory. */
const silentMs = 60_000;
/** What is only remembered may still be about to report. */
const graceMs = 10_000;
/** Far below the day for which the topic keeps records. */
const publishEveryMs = 3_600_000;

export interface FleetMemoryOptions {
  /** Of this replica. */
  readonly name: string;
  readonly board: StatusBoard;
  readonly file: GatewaysFile;
  readonly log: ControlLog;
  readonly mac: StatusMac;
  readonly logger: { warn(fields: object, text: string): void; info(fields: object, text: string): void };
}

export class FleetMemory {
  readonly #options: FleetMemoryOptions;
  /** Incarnations that ended here and are remembered elsewhere. */
  readonly #contradicted = new Set<string>();
  #timer: NodeJS.Timeout | undefined;
  #publishing: Promise<void> | undefined;

  /** Hands the board what the file holds; to be made before the board starts to read. */
  constructor(options: FleetMemoryOptions) {
    this.#options = options;
    const { board, file } = options;
    const { ended, reports } = file.read();
    for (const each of ended) board.rows.forget(each);
    for (const report of reports) board.rows.take(report, 'file');
    board.rows.changed.clear();
  }

  start(): void {
    this.#timer = setInterval(() => this.#sweep(), sweepMs);
    this.#timer.unref();
  }

  /** Another replica remembers these; they ended here. */
  contradict(ended: readonly string[]): void {
    for (const incarnation of ended) this.#contradicted.add(incarnation);
  }

  /** Forgets every process that reported under the name; gives how many. Rejects where that cannot be published. */
  async forget(name: string): Promise<number> {
    const { board, logger } = this.#options;
    const known = board.gateways().filter(({ report }) => report.name === name);
    const forgotten = known.map(({ report: { incarnation, n } }) => ({ incarnation, n }));
    if (forgotten.length === 0) return 0;
    await this.#append([], forgotten);
    for (const each of forgotten) board.rows.forget(each);
    this.#keep();
    logger.info({ gateway: name, processes: forgotten.length }, 'gateway forgotten by an operator');
    return forgotten.length;
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#keep();
    this.#options.file.close();
  }

  #sweep(): void {
    this.#keep();
    if (!this.#options.board.isComplete || this.#publishing !== undefined) return;
    this.#publishing = this.#publish().finally(() => {
      this.#publishing = undefined;
    });
  }

  /** Writes what changed since the last time; where that fails, it is tried again at the next. */
  #keep(): void {
    const { board, file, logger } = this.#options;
    const { rows } = board;
    if (rows.changed.size === 0) return;
    const changes = [...rows.changed].flatMap((incarnation): readonly Kept[] => {
      const report = rows.get(incarnation)?.report;
      const endedAt = rows.endedAt(incarnation);
      if (report && (endedAt === undefined || report.n > endedAt))
        return report.kind === 'gateway' ? [report] : [];
      return endedAt === undefined ? [] : [{ incarnation, endedAt }];
    });
    try {
      file.write(changes);
      rows.changed.clear();
    } catch (error) {
      logger.warn({ err: error }, 'gateways.db cannot be written; known gateways are only in memory');
    }
  }

  async #publish(): Promise<void> {
    const { board, logger } = this.#options;
    const { rows } = board;
    const silent = [...rows.all()].filter(isDue);
    const forgotten = [...this.#contradicted].flatMap((incarnation) => {
      const n = rows.endedAt(incarnation);
      return n === undefined ? [] : [{ incarnation, n }];
    });
    if (silent.length === 0 && forgotten.length === 0) return;
    try {
      await this.#append(
        silent.map(({ report }) => report),
        forgotten,
      );
      this.#contradicted.clear();
      for (const { report } of silent) {
        rows.take(report, 'memory');
        // Its last report, not the one with which it was first seen, is what outlasts the topic.
        rows.changed.add(report.incarnation);
      }
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      logger.warn({ reason }, 'what is known of silent gateways could not be published; it is tried again');
    }
  }

  /** In records of a bounded size. Rejects with the errors of ControlLog. */
  async #append(gateways: readonly StatusReport[], forgotten: readonly Forgotten[]): Promise<void> {
    const { name, log, mac } = this.#options;
    for (const part of inParts(name, gateways, forgotten)) {
      const value = Buffer.from(JSON.stringify(part));
      await log.append(value, mac.of(value));
    }
  }
}

function isDue({ report, seenMs, publishedMs, isRemembered, isForgotten }: Row): boolean {
  const nowMs = performance.now();
  return (
    report.kind === 'gateway' &&
    !isForgotten &&
    nowMs - seenMs > (isRemembered ? graceMs : silentMs) &&
    nowMs - publishedMs > publishEveryMs
  );
}

/** Splits what is to be published so that no record is larger than one of the topic may be. */
function* inParts(
  name: string,
  gateways: readonly StatusReport[],
  forgotten: readonly Forgotten[],
): Generator<FleetMemoryRecord> {
  const empty = (): FleetMemoryRecord => ({ v: 1, kind: 'memory', name, gateways: [], forgotten: [] });
  let part = empty();
  let bytes = 0;
  const all = [
    ...gateways.map((gateway) => ({ gateway })),
    ...forgotten.map((each) => ({ forgotten: each })),
  ];
  for (const item of all) {
    const size = Buffer.byteLength(JSON.stringify(item));
    if (bytes > 0 && bytes + size > statusBytesMax - 2000) {
      yield part;
      part = empty();
      bytes = 0;
    }
    if ('gateway' in item) part.gateways.push(item.gateway);
    else part.forgotten.push(item.forgotten);
    bytes += size;
  }
  if (bytes > 0) yield part;
}
