/**
 * Remembers gateways for longer than the status topic retains their reports, because a silent gateway may still accept
 * revoked keys (design 4: Revocation confirmed). Each replica stores the gateways in a file, and republishes the reports of
 * silent ones so that new replicas learn about them. If another replica republishes a gateway that has ended, this replica
 * publishes the gateway's tombstone.
 */
import { hourMs } from '../../schemas/durations.ts';
import {
  type FleetMemoryRecord,
  type Forgotten,
  type StatusReport,
  statusBytesMax,
} from '../../schemas/records/status.ts';
import type { ControlLog } from '../../shared/log/core/control-log.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import type { StatusMac } from '../../shared/status/status-mac.ts';
import type { FleetRow } from './fleet-rows.ts';
import type { GatewaysFile, PersistedGateway } from './gateways-file.ts';
import type { StatusBoard } from './status-board.ts';

const sweepMsDefault = 2000;
/** Silence in ms after which a gateway's report is republished. */
const silentMs = 60_000;
/** Time in ms for a gateway known only from a file or memory record to report before its old report is republished. */
const graceMs = 10_000;
/** Republish interval in ms, far below the topic's retention of one day. */
const republishEveryMs = hourMs;

export interface FleetMemoryOptions {
  readonly name: string;
  readonly board: StatusBoard;
  readonly file: GatewaysFile;
  readonly log: ControlLog;
  readonly mac: StatusMac;
  /** Interval in ms between sweeps, which write the file and republish reports that are due. Default: 2000. */
  readonly sweepMs?: number;
  readonly logger: Pick<Logger, 'warn' | 'info'>;
}

export class FleetMemory {
  readonly #options: FleetMemoryOptions;
  /** Ended incarnations that another replica still publishes as running. */
  readonly #resurrected = new Set<string>();
  #timer: NodeJS.Timeout | undefined;
  #publishing: Promise<void> | undefined;

  /** Loads the stored gateways into the status board. Must run before the board starts to read the topic. */
  constructor(options: FleetMemoryOptions) {
    this.#options = options;
    const { board, file } = options;
    const { ended, reports } = file.read();
    for (const each of ended) board.rows.forget(each);
    for (const report of reports) board.rows.upsert(report, 'file');
    board.rows.changed.clear();
  }

  start(): void {
    this.#timer = setInterval(() => this.#sweep(), this.#options.sweepMs ?? sweepMsDefault);
    this.#timer.unref();
  }

  /** Queues tombstones for incarnations that have ended but that another replica still publishes. */
  republishEnded(ended: readonly string[]): void {
    for (const incarnation of ended) this.#resurrected.add(incarnation);
  }

  /** Removes all gateway processes with this name and returns their number. Rejects if the topic cannot be written. */
  async forget(name: string): Promise<number> {
    const { board, logger } = this.#options;
    const known = board.gateways().filter(({ report }) => report.name === name);
    const forgotten = known.map(({ report: { incarnation, n } }) => ({ incarnation, n }));
    if (forgotten.length === 0) return 0;
    await this.#append([], forgotten);
    for (const each of forgotten) board.rows.forget(each);
    this.#persist();
    logger.info(
      { gateway: name, processes: forgotten.length },
      'an operator told the control plane to forget the gateway',
    );
    return forgotten.length;
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#persist();
    this.#options.file.close();
  }

  #sweep(): void {
    this.#persist();
    if (!this.#options.board.isComplete || this.#publishing !== undefined) return;
    this.#publishing = this.#publish().finally(() => {
      this.#publishing = undefined;
    });
  }

  /** Writes changed gateways to the file. If that fails, the next sweep retries. */
  #persist(): void {
    const { board, file, logger } = this.#options;
    const { rows } = board;
    if (rows.changed.size === 0) return;
    const changes = [...rows.changed].flatMap((incarnation): readonly PersistedGateway[] => {
      const report = rows.get(incarnation)?.report;
      const endedAt = rows.findEnd(incarnation);
      if (report && (endedAt === undefined || report.n > endedAt))
        return report.kind === 'gateway' ? [report] : [];
      return endedAt === undefined ? [] : [{ incarnation, endedAt }];
    });
    try {
      file.write(changes);
      rows.changed.clear();
    } catch (error) {
      logger.warn({ err: error }, 'gateways.db cannot be written; known gateways are kept only in memory');
    }
  }

  async #publish(): Promise<void> {
    const { board, logger } = this.#options;
    const { rows } = board;
    const silent = [...rows.all()].filter(isDue);
    const forgotten = [...this.#resurrected].flatMap((incarnation) => {
      const n = rows.findEnd(incarnation);
      return n === undefined ? [] : [{ incarnation, n }];
    });
    if (silent.length === 0 && forgotten.length === 0) return;
    try {
      await this.#append(
        silent.map(({ report }) => report),
        forgotten,
      );
      this.#resurrected.clear();
      for (const { report } of silent) {
        rows.upsert(report, 'memory');
        // The file contains only the first report of each incarnation, but for a silent gateway it must contain the last one.
        rows.changed.add(report.incarnation);
      }
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      logger.warn({ reason }, 'the list of silent gateways could not be published; retrying');
    }
  }

  /** Appends memory records, split so that each fits the topic's size limit. Rejects with the errors from `ControlLog`. */
  async #append(gateways: readonly StatusReport[], forgotten: readonly Forgotten[]): Promise<void> {
    const { name, log, mac } = this.#options;
    for (const batch of inBatches(name, gateways, forgotten)) {
      const value = Buffer.from(JSON.stringify(batch));
      await log.append(value, mac.of(value));
    }
  }
}

function isDue({ report, seenMs, publishedMs, isRemembered, isForgotten }: FleetRow): boolean {
  const nowMs = performance.now();
  return (
    report.kind === 'gateway' &&
    !isForgotten &&
    nowMs - seenMs > (isRemembered ? graceMs : silentMs) &&
    nowMs - publishedMs > republishEveryMs
  );
}

/** Splits reports and forgotten gateways into records below the size limit of the topic. */
function* inBatches(
  name: string,
  gateways: readonly StatusReport[],
  forgotten: readonly Forgotten[],
): Generator<FleetMemoryRecord> {
  const empty = (): FleetMemoryRecord => ({ v: 1, kind: 'memory', name, gateways: [], forgotten: [] });
  let batch = empty();
  let bytes = 0;
  const all = [
    ...gateways.map((gateway) => ({ gateway })),
    ...forgotten.map((each) => ({ forgotten: each })),
  ];
  for (const item of all) {
    const size = Buffer.byteLength(JSON.stringify(item));
    if (bytes > 0 && bytes + size > statusBytesMax - 2000) {
      yield batch;
      batch = empty();
      bytes = 0;
    }
    if ('gateway' in item) batch.gateways.push(item.gateway);
    else batch.forgotten.push(item.forgotten);
    bytes += size;
  }
  if (bytes > 0) yield batch;
}
