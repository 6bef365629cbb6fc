/**
 * Waits until every gateway has applied a position of the log, so that a revocation is confirmed (design 4: Revocation
 * confirmed). All waiters share each read of the status topic.
 */
import type { Confirmations, GatewayConfirmation } from '../../schemas/admin/admin.ts';
import { sleep, within } from '../../shared/runtime/retry.ts';
import type { Snapshot } from '../../shared/snapshot/snapshot.ts';
import type { StatusBoard } from './status-board.ts';

/** Minimum time in ms for reading the status reports, even if the caller's timeout is shorter. */
const readMsMin = 1000;
/** Poll interval in ms. Polling is needed because a silent gateway counts as confirmed after some time, without an event. */
const pollMs = 500;

/** Time limit in ms for one read of the status reports. */
const readMsMax = 5000;
/** Shortest time in ms between the starts of two reads, however many callers wait. */
const readGapMs = 100;

export class Confirming {
  readonly #board: StatusBoard;
  readonly #snapshot: Pick<Snapshot, 'log'>;
  /** Resolves when the running read has ended and the pause after it is over. */
  #running: Promise<unknown> = Promise.resolve();
  #next: Promise<boolean> | undefined;

  constructor({
    board,
    snapshot,
  }: { readonly board: StatusBoard; readonly snapshot: Pick<Snapshot, 'log'> }) {
    this.#board = board;
    this.#snapshot = snapshot;
  }

  /** Waits until all gateways confirm the position or the timeout expires. If `client` aborts, rejects with its reason. */
  async wait(position: number, timeoutSeconds: number, client: AbortSignal): Promise<Confirmations> {
    const board = this.#board;
    const startMs = performance.now();
    const untilMs = startMs + timeoutSeconds * 1000;
    const leftMs = (): number => untilMs - performance.now();
    const confirmedMs = new Map<string, number>();
    // A gateway publishes a report before it serves, so a gateway without a report in the topic does not accept keys yet.
    let isRead = await this.#readToEnd(Math.max(leftMs(), readMsMin), client);
    let readMs = performance.now();
    for (;;) {
      client.throwIfAborted();
      const gateways = board.gateways().map((seen): GatewayConfirmation => {
        const { name, incarnation } = seen.report;
        const confirmed = board.confirms(seen, position, this.#snapshot.log);
        if (!confirmed) confirmedMs.delete(incarnation);
        else if (!confirmedMs.has(incarnation)) confirmedMs.set(incarnation, performance.now());
        const atMs = confirmedMs.get(incarnation) ?? performance.now();
        return { name, incarnation, confirmed, seconds: Math.round(atMs - startMs) / 1000 };
      });
      const reason = reasonAgainst(board, isRead);
      const complete = reason === undefined && gateways.every(({ confirmed }) => confirmed);
      if (complete || leftMs() <= 0) return { complete, gateways, ...(reason !== undefined && { reason }) };
      await board.changed(Math.min(pollMs, Math.max(leftMs(), 1)));
      if (performance.now() - readMs < pollMs && isRead) continue;
      isRead = (await this.#readToEnd(Math.max(leftMs(), 1), client)) || isRead;
      readMs = performance.now();
    }
  }

  /** Reads the status topic to its current end. Returns false if the timeout expires or the client aborts first. */
  async #readToEnd(timeoutMs: number, client: AbortSignal): Promise<boolean> {
    return (await within(this.#sharedRead(), timeoutMs, client)) === true;
  }

  /** Returns the next read, which all waiters share. A running read does not count, because it may have begun too early. */
  #sharedRead(): Promise<boolean> {
    this.#next ??= this.#running.then(() => {
      this.#next = undefined;
      const reading = this.#board.readToEnd(readMsMax);
      this.#running = Promise.all([reading, sleep(readGapMs)]);
      return reading;
    });
    return this.#next;
  }
}

function reasonAgainst(board: StatusBoard, isRead: boolean): string | undefined {
  if (!isRead) {
    const why = board.fault === undefined ? '' : ` (${board.fault})`;
    return `the status reports were not read to their end${why}, so there may be more gateways`;
  }
  return board.rows.isOverflowed ? 'more gateways report than a control plane keeps' : undefined;
}
