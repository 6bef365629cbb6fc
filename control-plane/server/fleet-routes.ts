/** Routes of the fleet itself: status, gateways and what each has confirmed, usage. */
import type { FastifyInstance } from 'fastify';
import { z } from 'zod';
import { foldVersion } from '../../shared/snapshot/fold.ts';
import type { Seen } from '../../shared/status/status-board.ts';
import { CommandError } from '../command-error.ts';
import { readingRoles } from '../commands/authorise.ts';
import { type AdminContext, parseQuery, readQuerySchema, stateFor } from './context.ts';

const waitSecondsMax = 60;
const confirmationQuerySchema = z.object({
  timeoutSeconds: z.coerce.number().min(0).max(waitSecondsMax).default(waitSecondsMax),
});
const positionParamsSchema = z.object({ position: z.coerce.number().int().min(1) });
const nameParamsSchema = z.object({ name: z.string().min(1).max(200) });

function gatewayOf(context: AdminContext, seen: Seen): object {
  const { report, seenMs } = seen;
  const seenSeconds = (performance.now() - seenMs) / 1000;
  const head = { seq: context.snapshot.seq, foldVersion };
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
    ...(report.halted !== undefined && { halted: report.halted }),
  };
}

const round = (seconds: number): number => Math.round(seconds * 1000) / 1000;

/** Waits until every live gateway has the position in force, or the time is over; says for each when it had. */
async function confirmations(
  context: AdminContext,
  position: number,
  timeoutSeconds: number,
): Promise<object> {
  const { board } = context;
  const startMs = performance.now();
  const confirmedMs = new Map<string, number>();
  const look = (): boolean => {
    for (const seen of board.gateways()) {
      if (!confirmedMs.has(seen.report.name) && board.confirms(seen, position))
        confirmedMs.set(seen.report.name, performance.now());
    }
    return board.gateways().every((seen) => confirmedMs.has(seen.report.name));
  };
  if (!look()) {
    await new Promise<void>((resolve) => {
      const done = (): void => {
        unsubscribe();
        clearInterval(interval);
        clearTimeout(timer);
        resolve();
      };
      const check = (): void => {
        if (look()) done();
      };
      const unsubscribe = board.onReport(check);
      // A silent gateway is confirmed by the passing of time, which no report tells.
      const interval = setInterval(check, 500);
      const timer = setTimeout(done, timeoutSeconds * 1000);
    });
  }
  const gateways = board.gateways().map(({ report }) => {
    const at = confirmedMs.get(report.name);
    return {
      name: report.name,
      confirmed: at !== undefined,
      seconds: round(((at ?? performance.now()) - startMs) / 1000),
    };
  });
  return { complete: gateways.every(({ confirmed }) => confirmed), gateways };
}

export function registerFleetRoutes(app: FastifyInstance, context: AdminContext): void {
  const { snapshot } = context;
  const config = { access: 'operator' } as const;
  app.get('/status', { config, schema: { summary: 'This replica and the log' } }, async (request) => {
    const query = parseQuery(readQuerySchema, request.query);
    const state = await stateFor(context, query);
    return {
      log: state.log,
      position: state.seq,
      digest: state.digest(),
      digests: state.digests(),
      foldVersion,
      replica: context.replica,
      skipped: snapshot.skipped,
      ...(snapshot.halt && { halted: snapshot.halt.reason }),
    };
  });
  app.get('/gateways', { config, schema: { summary: 'List gateways and how far each is' } }, () => {
    return {
      items: context.board.gateways().map((seen) => gatewayOf(context, seen)),
      position: snapshot.seq,
    };
  });
  app.get('/gateways/:name', { config, schema: { summary: 'One gateway' } }, (request) => {
    const { name } = parseQuery(nameParamsSchema, request.params);
    const seen = context.board.gateways().find(({ report }) => report.name === name);
    if (!seen) throw new CommandError('NotFound', 'no gateway of this name has reported');
    return gatewayOf(context, seen);
  });
  // Open to members too: who may revoke a key may see the revocation come into force; no names of tenants are in it.
  app.get(
    '/confirmations/:position',
    { config: { access: readingRoles }, schema: { summary: 'Wait until gateways have a position in force' } },
    (request) => {
      const { position } = parseQuery(positionParamsSchema, request.params);
      return confirmations(
        context,
        position,
        parseQuery(confirmationQuerySchema, request.query).timeoutSeconds,
      );
    },
  );
}
