/** Waits until every gateway has applied a position, and reports when each did (design 4: Revocation confirmed). */
import type { Confirmations, GatewayConfirmation } from '../../schemas/admin.ts';
import type { Snapshot } from '../../shared/snapshot/snapshot.ts';
import type { StatusBoard } from '../../shared/status/status-board.ts';

/** The minimum time to read the reports, even where the timeout of the caller is shorter. */
const readMsMin = 1000;
/** Polls, because the time alone confirms a silent gateway, without an event. */
const pollMs = 500;

export interface Confirming {
  readonly board: StatusBoard;
  readonly snapshot: Pick<Snapshot, 'log'>;
}

export async function confirmations(
  { board, snapshot }: Confirming,
  position: number,
  timeoutSeconds: number,
): Promise<Confirmations> {
  const startMs = performance.now();
  const untilMs = startMs + timeoutSeconds * 1000;
  const leftMs = (): number => untilMs - performance.now();
  const confirmedMs = new Map<string, number>();
  // A gateway publishes a report before it serves, so a gateway that this read does not find accepts no key yet.
  let isRead = await board.readToEnd(Math.max(leftMs(), readMsMin));
  let readMs = performance.now();
  for (;;) {
    const gateways = board.gateways().map((seen): GatewayConfirmation => {
      const { name, incarnation } = seen.report;
      const confirmed = board.confirms(seen, position, snapshot.log);
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
    isRead = (await board.readToEnd(Math.max(leftMs(), 1))) || isRead;
    readMs = performance.now();
  }
}

function reasonAgainst(board: StatusBoard, isRead: boolean): string | undefined {
  if (!isRead) {
    const why = board.fault === undefined ? '' : ` (${board.fault})`;
    return `the status reports were not read to their end${why}, so there may be more gateways`;
  }
  return board.rows.isOverflowed ? 'more gateways report than a control plane keeps' : undefined;
}
