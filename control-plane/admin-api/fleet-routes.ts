/** Routes of the fleet: its status, its gateways, and the position that each gateway has confirmed. */
import type { GatewayStatus } from '../../schemas/admin/admin.ts';
import { reportedMembers, shownMembers } from '../../schemas/records/gateway-members.ts';
import { foldVersion } from '../../shared/snapshot/fold.ts';
import { combineDigests } from '../../shared/snapshot/tables.ts';
import { CommandError } from '../core/command-error.ts';
import { Confirming } from '../gateways/confirmations.ts';
import type { SeenReport } from '../gateways/status-board.ts';
import { type AdminContext, clientSignal, createPastReader, openState } from './context.ts';
import type { OperationHandlers } from './operations.ts';
import { signingStatus } from './signer-routes.ts';

type Context = Pick<
  AdminContext,
  'replica' | 'snapshot' | 'replicator' | 'log' | 'signer' | 'past' | 'board' | 'fleetMemory'
>;

function describeGateway(context: Context, seen: SeenReport): GatewayStatus {
  const { report, seenMs } = seen;
  const seenSeconds = (performance.now() - seenMs) / 1000;
  const { log, seq } = context.snapshot;
  const head = { log, seq, foldVersion };
  const processes = context.board.conflicts().get(report.name);
  return {
    name: report.name,
    state: context.board.state(seen, head),
    applied: report.applied,
    lagEvents: Math.max(0, head.seq - report.applied),
    freshSeconds: report.freshSeconds === null ? null : round(report.freshSeconds + seenSeconds),
    digest: report.digest,
    seenSeconds: round(seenSeconds),
    foldVersion: report.foldVersion,
    incarnation: report.incarnation,
    ...(report.log !== log && { log: report.log }),
    ...(processes !== undefined && { conflict: `${processes} processes report under this name` }),
    ...reportedMembers(shownMembers, report),
    ...(seen.isForgotten === true && ({ forgotten: true } as const)),
  };
}

const round = (seconds: number): number => Math.round(seconds * 1000) / 1000;

/** Forgets the gateways with this name and returns the number of their processes. */
function forget({ fleetMemory }: Context, name: string): Promise<number> {
  return fleetMemory.forget(name).catch((error: unknown) => {
    throw new CommandError('LogUnavailable', 'the removal could not be published', {
      next: 'try again',
      cause: error,
    });
  });
}

/** Returns the number of gateway processes with this name, and how many of them have reported in the last ten seconds. */
function countReports({ board }: Context, name: string): { known: number; reporting: number } {
  const named = board.gateways().filter(({ report }) => report.name === name);
  return { known: named.length, reporting: named.filter((seen) => !board.isSilent(seen)).length };
}

type FleetName = 'status.get' | 'gateway.list' | 'gateway.get' | 'gateway.forget' | 'confirmations.get';

export function fleetHandlers(context: Context): OperationHandlers<FleetName> {
  const { snapshot } = context;
  const confirming = new Confirming(context);
  return {
    'status.get': async ({ query, request, reply }) => {
      const reader = createPastReader(request, reply);
      const state = await openState(context, query, reader);
      const digests = await context.past.digestsAt(state.seq, reader);
      return {
        log: state.log,
        position: state.seq,
        digest: combineDigests(digests),
        digests: { ...digests },
        foldVersion,
        replica: context.replica,
        controlPlanes: context.board
          .controlPlanes()
          .map(({ report: { name, applied } }) => ({ name, applied })),
        skipped: snapshot.skipped,
        ...signingStatus(state.head.signers, context),
        ...(snapshot.halt && { halted: snapshot.halt.reason }),
      };
    },
    'gateway.list': () => ({
      items: context.board.gateways().map((seen) => describeGateway(context, seen)),
      position: snapshot.seq,
    }),
    'gateway.get': ({ params: { name } }) => {
      const named = context.board.gateways().filter(({ report }) => report.name === name);
      const seen = named.sort((a, b) => b.seenMs - a.seenMs)[0];
      if (!seen) throw new CommandError('NotFound', 'no gateway of this name has reported');
      return describeGateway(context, seen);
    },
    'gateway.forget': async ({ params: { name }, query }) => {
      const dryRun = query.dryRun === 'true';
      const { known, reporting } = countReports(context, name);
      const forgotten = dryRun ? known : await forget(context, name);
      if (forgotten === 0) throw new CommandError('NotFound', 'no gateway of this name is known');
      const position = snapshot.seq;
      return { name, forgotten, reporting, ...(dryRun && ({ dryRun } as const)), position };
    },
    'confirmations.get': ({ params: { position }, query: { timeoutSeconds }, reply }) =>
      confirming.wait(position, timeoutSeconds, clientSignal(reply)),
  };
}
