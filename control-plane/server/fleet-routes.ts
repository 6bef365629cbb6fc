/** Routes of the fleet itself: status, gateways and what each has confirmed, usage. */
import type { FastifyInstance } from 'fastify';
import { z } from 'zod';
import type { AdminResponse, GatewayStatus, ReplicaStatus } from '../../schemas/admin.ts';
import { foldVersion } from '../../shared/snapshot/fold.ts';
import { digestOfTables } from '../../shared/snapshot/tables.ts';
import type { Seen } from '../../shared/status/status-board.ts';
import { readingRoles } from '../commands/authorise.ts';
import { CommandError } from '../core/command-error.ts';
import { Confirming } from '../gateways/confirmations.ts';
import {
  type AdminContext,
  clientSignal,
  commandQuerySchema,
  parseQuery,
  pastReaderOf,
  readQuerySchema,
  stateFor,
} from './context.ts';
import { signingStatus } from './signer-routes.ts';

/** A silent gateway that fences is confirmed by time alone about 60 s after its last proof. */
const waitSecondsMax = 75;
const confirmationQuerySchema = z.object({
  timeoutSeconds: z.coerce.number().min(0).max(waitSecondsMax).default(waitSecondsMax),
});
const positionParamsSchema = z.object({ position: z.coerce.number().int().min(1) });
const nameParamsSchema = z.object({ name: z.string().min(1).max(200) });

function gatewayOf(context: AdminContext, seen: Seen): GatewayStatus {
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
    stalePolicy: report.stalePolicy,
    foldVersion: report.foldVersion,
    incarnation: report.incarnation,
    ...(report.log !== log && { log: report.log }),
    ...(processes !== undefined && { conflict: `${processes} processes report under this name` }),
    ...(report.halted !== undefined && { halted: report.halted }),
    ...(seen.isForgotten === true && ({ forgotten: true } as const)),
  };
}

const round = (seconds: number): number => Math.round(seconds * 1000) / 1000;

/** How many processes of the name were forgotten. */
function forget({ fleetMemory }: AdminContext, name: string): Promise<number> {
  return fleetMemory.forget(name).catch((error: unknown) => {
    throw new CommandError('LogUnavailable', 'the removal could not be published', {
      next: 'try again',
      cause: error,
    });
  });
}

/** Processes of the name, and those of them that reported in the last ten seconds. */
function knownAs({ board }: AdminContext, name: string): { known: number; reporting: number } {
  const named = board.gateways().filter(({ report }) => report.name === name);
  return { known: named.length, reporting: named.filter((seen) => !board.isSilent(seen)).length };
}

export function registerFleetRoutes(app: FastifyInstance, context: AdminContext): void {
  const { snapshot } = context;
  const confirming = new Confirming(context);
  const config = { access: 'operator' } as const;
  app.get(
    '/status',
    { config: { ...config, past: true }, schema: { summary: 'This replica and the log' } },
    async (request, reply): Promise<ReplicaStatus> => {
      const query = parseQuery(readQuerySchema, request.query);
      const reader = pastReaderOf(request, reply);
      const state = await stateFor(context, query, reader);
      const digests = await context.past.digestsAt(state.seq, reader);
      return {
        log: state.log,
        position: state.seq,
        digest: digestOfTables(digests),
        digests: { ...digests },
        foldVersion,
        replica: context.replica,
        skipped: snapshot.skipped,
        ...signingStatus(state.head.signers, context),
        ...(snapshot.halt && { halted: snapshot.halt.reason }),
      };
    },
  );
  app.get('/gateways', { config, schema: { summary: 'List gateways and their positions' } }, () => {
    return {
      items: context.board.gateways().map((seen) => gatewayOf(context, seen)),
      position: snapshot.seq,
    };
  });
  app.get('/gateways/:name', { config, schema: { summary: 'One gateway' } }, (request) => {
    const { name } = parseQuery(nameParamsSchema, request.params);
    const named = context.board.gateways().filter(({ report }) => report.name === name);
    const seen = named.sort((a, b) => b.seenMs - a.seenMs)[0];
    if (!seen) throw new CommandError('NotFound', 'no gateway of this name has reported');
    return gatewayOf(context, seen);
  });
  app.delete(
    '/gateways/:name',
    {
      config,
      schema: {
        summary:
          'Forget a gateway that was removed; one that still runs stays in the list, and is waited for',
      },
    },
    async (request): Promise<AdminResponse<'DELETE /gateways/:name'>> => {
      const { name } = parseQuery(nameParamsSchema, request.params);
      const dryRun = parseQuery(commandQuerySchema, request.query).dryRun === 'true';
      const { known, reporting } = knownAs(context, name);
      const forgotten = dryRun ? known : await forget(context, name);
      if (forgotten === 0) throw new CommandError('NotFound', 'no gateway of this name is known');
      const position = snapshot.seq;
      return { name, forgotten, reporting, ...(dryRun && ({ dryRun } as const)), position };
    },
  );
  // Open to members: a person who may revoke a key may watch the revocation take effect; it contains no names of tenants.
  app.get(
    '/confirmations/:position',
    {
      config: { access: readingRoles, opens: 'wait' },
      schema: { summary: 'Wait until gateways have a position in force' },
    },
    (request, reply) => {
      const { position } = parseQuery(positionParamsSchema, request.params);
      const { timeoutSeconds } = parseQuery(confirmationQuerySchema, request.query);
      return confirming.wait(position, timeoutSeconds, clientSignal(reply));
    },
  );
}
