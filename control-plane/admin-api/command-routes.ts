/** Routes of all commands. They pass each request to the command writer and convert its result to a response. */
import { randomUUID } from 'node:crypto';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { divisibleQuerySchema } from '../../schemas/admin/admin-row.ts';
import { type Change, type ReleaseTexts, releaseSchema } from '../../schemas/events/changes.ts';
import { toFieldTexts } from '../../schemas/events/event-definition.ts';
import type { KnownEvent } from '../../schemas/events/events.ts';
import { nameSchema } from '../../schemas/names.ts';
import { wallClockMs } from '../../shared/runtime/clock.ts';
import { atOnce, onOnePosition } from '../../shared/runtime/slices.ts';
import { type CommandRequest, type CommandResult, EffectMoved } from '../commands/bound-command.ts';
import { commandHash } from '../commands/command-hash.ts';
import type { CommandDefinition } from '../commands/definition.ts';
import { diffFleet } from '../commands/fleet-diff.ts';
import { commands } from '../commands/registry.ts';
import { CommandError } from '../core/command-error.ts';
import { readStaging, withFigures } from './change-routes.ts';
import {
  type AdminContext,
  type GatewayQuestions,
  parseQuery,
  requestActor,
  requestChannel,
} from './context.ts';
import { effectGuard } from './effect-guard.ts';
import { placeTraffic } from './effect-of-events.ts';
import { poolTokens } from './live-counters.ts';
import { addRoute, type OperationHandlers } from './operations.ts';

type Context = Pick<
  AdminContext,
  | GatewayQuestions
  | 'snapshot'
  | 'writer'
  | 'past'
  | 'traffic'
  | 'usage'
  | 'counters'
  | 'gauges'
  | 'onCommits'
>;

const idempotencyKeySchema = z.string().regex(/^[A-Za-z0-9._-]{8,64}$/);

/** Returns the id from the `Idempotency-Key` header. Without it the id is random, and repeats are not recognised. */
export function readCommandId(request: FastifyRequest): string {
  const header = request.headers['idempotency-key'];
  if (header === undefined) return randomUUID();
  const parsed = idempotencyKeySchema.safeParse(header);
  if (parsed.success) return parsed.data;
  throw new CommandError(
    'InvalidCommand',
    'Idempotency-Key must be 8 to 64 letters, digits, dots, underscores or hyphens',
  );
}

function parseIfMatch(request: FastifyRequest): number | undefined {
  const header = request.headers['if-match'];
  if (header === undefined) return undefined;
  const match = /^"?(\d{1,15})"?$/.exec(header);
  if (!match) throw new CommandError('InvalidCommand', 'If-Match must be a position');
  return Number(match[1]);
}

const repeatedNext =
  'this command was already carried out, and its value is shown only once; revoke it and create another';

const statusFields: Readonly<Record<CommandResult['status'], object>> = {
  done: {},
  unchanged: { unchanged: true },
  'dry-run': { dryRun: true },
  repeated: { repeated: true, next: repeatedNext },
};

/** Runs the command in a request and builds the response. */
export async function runCommand(
  context: Context,
  definition: CommandDefinition,
  request: FastifyRequest,
): Promise<object> {
  const query = parseQuery(divisibleQuerySchema, request.query);
  if (query.why !== undefined && !nameSchema.safeParse(query.why).success)
    throw new CommandError('InvalidCommand', 'why must be 1 to 200 characters without control characters');
  const raw = { params: request.params, body: request.body ?? undefined };
  const stage = readStaging(context, query, readRelease(raw.body));
  const { answer, status, position, remaining } = await runGuarded(context, definition, raw, {
    id: readCommandId(request),
    actor: requestActor(request),
    why: query.why,
    via: requestChannel(request),
    ifAt: parseIfMatch(request),
    dryRun: query.dryRun === 'true',
    force: query.force === 'true',
    used: (organisation, period) => poolTokens(context, organisation, period),
    served: (place, model) => placeTraffic(context, place, model),
    inParts: query.inParts === 'true',
    ...(stage && { stage }),
  });
  const shown = isChange(answer) ? withFigures(context, answer) : answer;
  return { ...shown, ...statusFields[status], ...(remaining !== undefined && { remaining }), position };
}

/** Extracts release options from a fleet document in an unparsed body. Ignores invalid options, which are refused later. */
function readRelease(body: unknown): ReleaseTexts | undefined {
  const { fleet } = toFieldTexts(body) as { readonly fleet?: unknown };
  return releaseSchema.safeParse(toFieldTexts(fleet)['release']).data;
}

function isChange(answer: object): answer is Change {
  return 'holdSeconds' in answer;
}

/** Maximum number of times that an effect is computed while the state keeps changing. The last result then counts. */
const effectTriesMax = 3;

/** Runs a command after the effect guard has judged it. Dry runs and forced, staged or repeated commands are not judged. */
async function runGuarded(
  context: Context,
  definition: CommandDefinition,
  raw: { readonly params: unknown; readonly body: unknown },
  request: CommandRequest,
): Promise<CommandResult> {
  const { id, actor, used, dryRun, force, stage, inParts } = request;
  const isRepeated = context.snapshot.journal.commandOf(id) !== undefined;
  const guard = effectGuard(context);
  if (dryRun || force || stage || isRepeated) return context.writer.run(definition, raw, request);
  const hash = inParts ? commandHash(definition.name, raw.params, raw.body) : undefined;
  for (let tries = 1; ; tries++) {
    const checked = guard.isJudged(hash) ? undefined : await guard.check({ definition, raw, actor, used });
    try {
      const holds = (events: readonly KnownEvent[]): boolean =>
        guard.holds(checked, events) ||
        guard.isJudged(hash) ||
        (tries === effectTriesMax && checked !== undefined);
      const result = await context.writer.run(definition, raw, { ...request, holds });
      if (hash !== undefined && result.remaining) guard.wrotePart(hash, result.position);
      return withWarning(result, checked?.warning);
    } catch (error) {
      if (!(error instanceof EffectMoved) || tries === effectTriesMax) throw error;
    }
  }
}

/** Adds the guard's warning to the response, if the command was written. */
function withWarning(result: CommandResult, text: string | undefined): CommandResult {
  if (text === undefined || result.status !== 'done') return result;
  const { warnings = [] } = result.answer as { readonly warnings?: readonly string[] };
  return { ...result, answer: { ...result.answer, warnings: [...warnings, text] } };
}

export function addCommands(app: FastifyInstance, context: Context): void {
  for (const definition of commands)
    addRoute(app, definition.name, (request) => runCommand(context, definition, request));
}

/** Maximum number of times that comparing a fleet document restarts because the state changed. Then it runs uninterrupted. */
const comparisonsMax = 3;

export function planHandlers({ snapshot }: Context): OperationHandlers<'fleet.diff'> {
  return {
    'fleet.diff': async ({ body: { fleet, prune } }) => {
      const comparison = () => diffFleet(snapshot.db, fleet, { prune, nowMs: wallClockMs() });
      const found = await onOnePosition(snapshot, comparisonsMax, comparison);
      const { result, seq } = found ?? { result: atOnce(comparison()), seq: snapshot.seq };
      return { changes: [...result.changes], position: seq };
    },
  };
}
