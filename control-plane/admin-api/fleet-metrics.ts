/** Exports metrics of gateways as this replica knows them, because a silent gateway cannot be scraped. */
import { Gauge, type Registry } from 'prom-client';
import { ObservedMetrics } from '../../shared/runtime/observed-metrics.ts';
import type { HeadView, SeenReport, StatusBoard } from '../gateways/status-board.ts';
import { fleetStates } from '../gateways/status-board.ts';

interface FleetSource {
  readonly registry: Registry;
  readonly board: StatusBoard;
  readonly head: () => HeadView;
}

/** Exports each gateway's state, lag and silence. If several processes share a name, exports the largest values. */
export function observeFleet({ registry, board, head }: FleetSource): void {
  new Gauge({
    name: 'headgate_gateway_state',
    help: '1 for the current state of a gateway, 0 for its other states',
    labelNames: ['gateway', 'state'],
    registers: [registry],
    collect() {
      this.reset();
      for (const seen of board.gateways()) {
        const current = board.state(seen, head());
        for (const state of fleetStates)
          this.inc({ gateway: seen.report.name, state: state.toLowerCase() }, Number(state === current));
      }
    },
  });
  const metrics = new ObservedMetrics(registry);
  const worst = (name: string, help: string, value: (seen: SeenReport) => number): void =>
    metrics.gauges(name, help, 'gateway', () => {
      const values = new Map<string, number>();
      for (const seen of board.gateways())
        values.set(seen.report.name, Math.max(values.get(seen.report.name) ?? 0, value(seen)));
      return values;
    });
  worst(
    'headgate_gateway_lag_events',
    'commits of this replica that the gateway has not yet reported as applied',
    ({ report }) => Math.max(0, head().seq - report.applied),
  );
  worst(
    'headgate_gateway_seen_seconds',
    'time since the last report of a gateway',
    ({ seenMs }) => (performance.now() - seenMs) / 1000,
  );
  worst(
    'headgate_fold_diverged',
    '1 while the rows of a gateway differ from those of this replica at the same position',
    (seen) => Number(board.state(seen, head()) === 'DIVERGED'),
  );
}
