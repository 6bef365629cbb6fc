/** The gateways as this replica knows them, as metrics: what a scraper cannot learn from a gateway that is silent. */
import { Gauge, type Registry } from 'prom-client';
import type { HeadView, Seen, StatusBoard } from '../../shared/status/status-board.ts';
import { fleetStates } from '../../shared/status/status-board.ts';

interface FleetSource {
  readonly registry: Registry;
  readonly board: StatusBoard;
  readonly head: () => HeadView;
}

/** Of several processes with one name the worst counts. */
export function observeFleet({ registry, board, head }: FleetSource): void {
  const labelled = { labelNames: ['gateway'], registers: [registry] };
  new Gauge({
    name: 'headgate_gateway_state',
    help: '1 for the state that a gateway is in, 0 for the others',
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
  const worst = (gauge: Gauge, value: (seen: Seen) => number): void => {
    gauge.reset();
    const values = new Map<string, number>();
    for (const seen of board.gateways())
      values.set(seen.report.name, Math.max(values.get(seen.report.name) ?? 0, value(seen)));
    for (const [gateway, each] of values) gauge.set({ gateway }, each);
  };
  new Gauge({
    name: 'headgate_gateway_lag_events',
    help: 'commits of this replica that a gateway has not reported as applied',
    ...labelled,
    collect() {
      worst(this, ({ report }) => Math.max(0, head().seq - report.applied));
    },
  });
  new Gauge({
    name: 'headgate_gateway_seen_seconds',
    help: 'since the last report of a gateway',
    ...labelled,
    collect() {
      worst(this, ({ seenMs }) => (performance.now() - seenMs) / 1000);
    },
  });
  new Gauge({
    name: 'headgate_fold_diverged',
    help: '1 while a gateway has other rows than this replica at the same position',
    ...labelled,
    collect() {
      worst(this, (seen) => Number(board.state(seen, head()) === 'DIVERGED'));
    },
  });
}
