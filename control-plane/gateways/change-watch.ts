/**
 * Watches a staged change. The counts of the gateways in its waves decide whether it continues, waits or is withdrawn. No
 * replica leads: each one reaches the same decision, and the log accepts only the first write.
 */
import { randomUUID } from 'node:crypto';
import type { Registry } from 'prom-client';
import type { KnownEvent } from '../../schemas/events/events.ts';
import { replicaAuthor } from '../../schemas/shapes.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import { ObservedMetrics } from '../../shared/runtime/observed-metrics.ts';
import { parseColumn } from '../../shared/runtime/table-columns.ts';
import { foldVersion } from '../../shared/snapshot/fold.ts';
import type { Snapshot } from '../../shared/snapshot/snapshot.ts';
import { advancing } from '../commands/changes.ts';
import type { CommandWriter } from '../commands/command-writer.ts';
import { findOpenChange, type OpenChange } from '../state/changes.ts';
import { type ChangeFigures, computeFigures, type FleetData, splitSides } from './change-figures.ts';
import { type SeenReport, type StatusBoard, staleSeconds } from './status-board.ts';

export type ChangeStep =
  | { readonly kind: 'wait' }
  | { readonly kind: 'advance' }
  | { readonly kind: 'withdraw'; readonly reason: string };

/** Gateway fault that causes a change to be withdrawn, if the gateway is in one of the change's waves. */
type GatewayFault = 'silent' | 'diverged' | 'halted';

export interface WatchedChange {
  readonly open: OpenChange;
  readonly figures: ChangeFigures;
  readonly faults: ReadonlyMap<string, GatewayFault>;
  readonly nowMs: number;
}

const percent = (part: number, of: number): number => (of === 0 ? 0 : (100 * part) / of);

/** Decides whether a staged change advances, waits or is withdrawn. Pure, so that all replicas reach the same decision. */
export function nextStep({ open, figures, faults, nowMs }: WatchedChange): ChangeStep {
  const watch = parseColumn(open.watch);
  const { inside, outside, before } = figures;
  const withdraw = (reason: string): ChangeStep => ({ kind: 'withdraw', reason });
  for (const [name, fault] of faults)
    return withdraw(`gateway ${name} of the wave is ${fault}`.slice(0, 200));
  if (inside.errors >= watch.errors) return withdraw(`${inside.errors} internal errors in the wave`);
  const share = percent(inside.refusals, inside.requests);
  const usual = Math.max(
    percent(outside.refusals, outside.requests),
    percent(before.refusals, before.requests),
  );
  const isSeen = inside.requests >= watch.least;
  if (isSeen && inside.requests > 0 && share > usual + watch.refusals)
    return withdraw(`${share.toFixed(1)}% refused in the wave, ${usual.toFixed(1)}% usual`);
  const isHeld = nowMs >= open.wave_at + open.hold_seconds * 1000;
  const mayContinue = isHeld && (isSeen || open.advance_unseen === 1) && open.passed_over === 0;
  return { kind: mayContinue && open.wave > 0 ? 'advance' : 'wait' };
}

export interface StagedWatchOptions extends FleetData {
  readonly name: string;
  readonly snapshot: Snapshot;
  readonly writer: Pick<CommandWriter, 'write'>;
  readonly board: StatusBoard;
  readonly registry: Registry;
  readonly logger: Logger;
}

const everyMs = 1000;
const staleMs = staleSeconds * 1000;
/** Time in ms within which at least one process normally reports. A longer gap means that the status topic is unavailable. */
const gapMs = 6000;

/**
 * Whether a gateway has gone silent since a wave began. `listeningMs` is how long reports have been arriving without a gap.
 * While that is short, no gateway counts as silent, because its reports may have been missed.
 */
export function isSilentSince(
  { report, seenMs, isRemembered }: SeenReport,
  { listeningMs, waveMs, nowMs }: Readonly<Record<'listeningMs' | 'waveMs' | 'nowMs', number>>,
): boolean {
  const silentMs = performance.now() - seenMs;
  if (Math.min(silentMs, listeningMs) <= staleMs) return false;
  const lastMs = isRemembered ? Date.parse(report.at) : nowMs - silentMs;
  return lastMs + staleMs > waveMs;
}

export class StagedWatch {
  readonly #options: StagedWatchOptions;
  readonly #timer: NodeJS.Timeout;
  #withdrawn = 0;
  /** Monotonic time in ms since which reports have arrived without a gap. */
  #listeningSinceMs = performance.now();
  #writing: Promise<void> | undefined;

  constructor(options: StagedWatchOptions) {
    this.#options = options;
    const { registry, snapshot } = options;
    const metrics = new ObservedMetrics(registry);
    metrics.gauge('headgate_change_open_seconds', 'age of the open change; 0 if there is none', () => {
      const open = findOpenChange(snapshot.db);
      return open ? Math.max(0, (options.traffic.now() - open.at) / 1000) : 0;
    });
    metrics.counter(
      'headgate_changes_withdrawn_total',
      'changes that this replica withdrew automatically',
      () => this.#withdrawn,
    );
    this.#timer = setInterval(() => this.#look(), everyMs);
    this.#timer.unref();
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await this.#writing;
  }

  #look(): void {
    const { snapshot, board, logger } = this.#options;
    if (this.#writing !== undefined || !board.isComplete) return;
    const open = findOpenChange(snapshot.db);
    if (open === undefined) return;
    this.#listen();
    const step = nextStep(this.#watched(open));
    if (step.kind === 'wait') return;
    this.#writing = this.#write(open, step)
      .catch((error: unknown) =>
        logger.warn({ err: error, change: open.id }, 'staged change could not be advanced or withdrawn'),
      )
      .finally(() => {
        this.#writing = undefined;
      });
  }

  #watched(open: OpenChange): WatchedChange {
    const nowMs = this.#options.traffic.now();
    const released = {
      ...{ id: open.id, wave: open.wave, waves: [...parseColumn(open.waves)] },
      sinceMs: open.wave_at,
    };
    const { board } = this.#options;
    const isInside = splitSides(released);
    const inside = board.gateways().filter(({ report }) => isInside(report.name));
    const faults = new Map<string, GatewayFault>();
    for (const seen of inside) {
      const fault = this.#findFault(seen, { waveMs: open.wave_at, nowMs });
      if (fault !== undefined) faults.set(seen.report.name, fault);
    }
    return { open, figures: computeFigures(this.#options, released, nowMs), faults, nowMs };
  }

  #findFault(
    seen: SeenReport,
    times: Readonly<Record<'waveMs' | 'nowMs', number>>,
  ): GatewayFault | undefined {
    const { board, snapshot } = this.#options;
    const { log, seq } = snapshot;
    if (board.state(seen, { log, seq, foldVersion }) === 'DIVERGED') return 'diverged';
    if (seen.report.halted !== undefined) return 'halted';
    const listeningMs = performance.now() - this.#listeningSinceMs;
    return isSilentSince(seen, { listeningMs, ...times }) ? 'silent' : undefined;
  }

  /** Restarts the listening time after a start, pause or outage, so that gateways can report before they count as silent. */
  #listen(): void {
    const nowMs = performance.now();
    const { board } = this.#options;
    const reporting = [...board.gateways(), ...board.controlPlanes()].filter((seen) => !seen.isRemembered);
    const lastMs = Math.max(...reporting.map(({ seenMs }) => seenMs));
    if (nowMs - lastMs > gapMs) this.#listeningSinceMs = nowMs;
  }

  async #write(seen: OpenChange, step: Exclude<ChangeStep, { kind: 'wait' }>): Promise<void> {
    const { snapshot, writer, name, logger } = this.#options;
    let isWritten = false;
    const events = (): readonly KnownEvent[] => {
      const open = findOpenChange(snapshot.db);
      // If another replica has already written, or the rows that the change affects have changed meanwhile, write nothing.
      isWritten = open?.id === seen.id && open.wave === seen.wave && open.passed_over === seen.passed_over;
      if (!isWritten || open === undefined) return [];
      if (step.kind === 'advance') return advancing(open);
      return [{ type: 'change.withdrawn', data: { change: open.id, reason: step.reason } }];
    };
    await writer.write(`change-${randomUUID()}`, replicaAuthor(name), events);
    if (!isWritten) return;
    const change = { change: seen.id, wave: seen.wave };
    if (step.kind === 'advance') return logger.info(change, 'staged change advanced');
    this.#withdrawn++;
    logger.error({ ...change, because: step.reason }, 'staged change withdrawn');
  }
}
