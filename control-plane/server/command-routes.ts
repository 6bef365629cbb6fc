/** Routes of all commands, one a definition: from a request to the command path and back to an answer. */
import { randomBytes, randomUUID } from 'node:crypto';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { bodySchemas } from '../../schemas/commands.ts';
import { nameSchema } from '../../schemas/names.ts';
import { actorName } from '../commands/authorise.ts';
import { type CommandContext, type CommandDefinition, prepareCommand } from '../commands/definition.ts';
import { diffFleet } from '../commands/fleet-diff.ts';
import { commands } from '../commands/registry.ts';
import { CommandError } from '../core/command-error.ts';
import { type AdminContext, actorOf, commandQuerySchema, parseQuery } from './context.ts';
import { signingView } from './signer-routes.ts';

const idempotencyKeySchema = z.string().regex(/^[A-Za-z0-9._-]{8,64}$/);

/** From the header, or minted: then a repeat cannot be recognised. */
function commandIdOf(request: FastifyRequest): string {
  const header = request.headers['idempotency-key'];
  if (header === undefined) return randomUUID();
  const parsed = idempotencyKeySchema.safeParse(header);
  if (parsed.success) return parsed.data;
  throw new CommandError(
    'InvalidCommand',
    'Idempotency-Key must be 8 to 64 letters, digits, dots, underscores or hyphens',
  );
}

function ifAtOf(request: FastifyRequest): number | undefined {
  const header = request.headers['if-match'];
  if (header === undefined) return undefined;
  const match = /^"?(\d{1,15})"?$/.exec(header);
  if (!match) throw new CommandError('InvalidCommand', 'If-Match must be a position');
  return Number(match[1]);
}

async function run(
  context: AdminContext,
  definition: CommandDefinition,
  request: FastifyRequest,
): Promise<object> {
  const query = parseQuery(commandQuerySchema, request.query);
  if (query.why !== undefined && !nameSchema.safeParse(query.why).success)
    throw new CommandError('InvalidCommand', 'why must be 1 to 200 characters without control characters');
  const actor = actorOf(request);
  const dryRun = query.dryRun === 'true';
  const force = query.force === 'true';
  const prepared = prepareCommand(definition, { params: request.params, body: request.body ?? undefined });
  const { db } = context.snapshot;
  const contextAt = (nowMs: number): CommandContext => ({
    nowMs,
    actor,
    mint: randomBytes,
    signing: signingView(context),
    force,
    dryRun,
  });
  const outcome = await context.path.run<object>({
    id: commandIdOf(request),
    hash: prepared.hash,
    by: actorName(actor),
    why: query.why,
    ifAt: ifAtOf(request),
    dryRun,
    force,
    authorise: () => prepared.authorise(db, contextAt(Date.now())),
    decide: (nowMs) => prepared.decide(db, contextAt(nowMs)),
    repeated: (subject) => prepared.repeated(db, subject, contextAt(Date.now())),
  });
  const said = {
    done: {},
    unchanged: { unchanged: true },
    'dry-run': { dryRun: true },
    repeated: {
      repeated: true,
      next: 'this command was carried out before; a value that is shown once is not shown again: revoke it and create anew',
    },
  }[outcome.status];
  return { ...outcome.result, ...said, position: outcome.position };
}

export function registerCommandRoutes(app: FastifyInstance, context: AdminContext): void {
  for (const definition of commands) {
    app.route({
      method: definition.method,
      url: definition.path,
      config: { access: definition.roles },
      schema: {
        summary: definition.summary,
        operationId: definition.name,
        params: definition.params,
        querystring: commandQuerySchema,
        ...(definition.body && { body: definition.body }),
      },
      // Parsed once, in prepareCommand, whose refusals name every fault.
      validatorCompiler: () => (data: unknown) => ({ value: data }),
      handler: (request) => run(context, definition, request),
    });
  }
  const diff = {
    config: { access: 'operator' },
    schema: { summary: 'What applying this fleet would change' },
  } as const;
  app.post('/fleet/diff', diff, (request) => {
    const { db, seq } = context.snapshot;
    const { fleet, prune } = parseQuery(bodySchemas.applyFleet, request.body);
    const { changes } = diffFleet(db, fleet, { prune, nowMs: Date.now() });
    return { changes, position: seq };
  });
}
