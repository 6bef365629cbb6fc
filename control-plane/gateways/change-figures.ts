/**
 * Computes request counts for a staged change, inside and outside its waves, from the traffic reports that gateways publish.
 */
import type { Change, ChangeSide } from '../../schemas/events/changes.ts';
import { addTraffic, ownTimeBounds, type TrafficSums } from '../../schemas/records/traffic.ts';
import { firstWave } from '../../shared/snapshot/waves.ts';
import type { FleetTraffic } from './fleet-traffic.ts';
import type { StatusBoard } from './status-board.ts';
import { interpolateQuantile } from './traffic-steps.ts';

export type ReleasedChange = Pick<Change, 'id' | 'wave' | 'waves'> & {
  /** Start of the current wave, in ms since 1970. */
  readonly sinceMs: number;
};

export interface FleetData {
  readonly board: Pick<StatusBoard, 'gateways' | 'isSilent'>;
  readonly traffic: Pick<FleetTraffic, 'rows' | 'now'>;
}

export interface ChangeFigures {
  readonly inside: ChangeSide;
  readonly outside: ChangeSide;
  /** Request counts of the gateways in the wave, for the hour before the wave began. */
  readonly before: Pick<ChangeSide, 'requests' | 'refusals'>;
}

/** Returns a function that tells whether a staged change has reached the gateway with a given name. */
export function splitSides({
  id,
  wave,
  waves,
}: Pick<ReleasedChange, 'id' | 'wave' | 'waves'>): (gateway: string) => boolean {
  return (gateway) => {
    const first = firstWave(id, waves, gateway);
    return first !== undefined && first <= wave;
  };
}

/** Names of the gateways that are not silent, in alphabetical order. */
export function reportingGateways(board: FleetData['board']): string[] {
  const reporting = board.gateways().filter((seen) => !board.isSilent(seen));
  return [...new Set(reporting.map(({ report }) => report.name))];
}

function sumSide(
  gateways: number,
  { requests, refused = {}, endedEarly = 0, ownTime = [] }: TrafficSums,
): ChangeSide {
  const all = Object.values(refused).reduce((sum, of) => sum + of.requests, 0);
  const errors = refused['InternalError']?.requests ?? 0;
  const unavailable = refused['InferenceUnavailableError']?.requests ?? 0;
  const ownP95Ms = interpolateQuantile(ownTime, ownTimeBounds, 0.95);
  return {
    ...{ gateways, requests, refusals: all - errors, errors, nodeFailures: unavailable + endedEarly },
    ...(ownP95Ms !== undefined && { ownP95Ms: Math.round(ownP95Ms * 100) / 100 }),
  };
}

/** Keeps only internal errors of unknown callers, because these callers can cause any number of other refusals. */
function keepErrors({ refused: { InternalError } = {} }: TrafficSums): TrafficSums {
  return { requests: 0, ...(InternalError !== undefined && { refused: { InternalError } }) };
}

/** Sums counts of gateways inside and outside a change's waves. Omits reports whose time includes the start of the wave. */
export function computeFigures(
  { board, traffic }: FleetData,
  released: ReleasedChange,
  nowMs: number,
): ChangeFigures {
  const none = (): TrafficSums => ({ requests: 0 });
  const sums = { inside: none(), outside: none(), before: none() };
  const isInside = splitSides(released);
  for (const { gateway, atMs, report, row: all, isRest } of traffic.rows(nowMs)) {
    const row = all.organisation === undefined && !isRest ? keepErrors(all) : all;
    const isIn = isInside(gateway);
    const isSince = atMs - (report.toMs - report.fromMs) >= released.sinceMs;
    if (isSince) addTraffic(isIn ? sums.inside : sums.outside, row);
    else if (isIn && atMs <= released.sinceMs) addTraffic(sums.before, row);
  }
  const names = reportingGateways(board);
  const inside = names.filter(isInside).length;
  return {
    inside: sumSide(inside, sums.inside),
    outside: sumSide(names.length - inside, sums.outside),
    before: sumSide(inside, sums.before),
  };
}
