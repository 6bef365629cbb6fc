/** Shows the effect of a command before it is written. The command is planned as usual, but nothing reaches the log. */
import { randomUUID } from 'node:crypto';
import { adminOperations, type OperationAnswer } from '../../schemas/admin/admin.ts';
import { adminPrefix } from '../../schemas/admin/admin-routes.ts';
import type { EffectRequest } from '../../schemas/admin/effect.ts';
import { type Actor, actorName, authorise } from '../commands/authorise.ts';
import { type CommandDefinition, chooseForm, parseInput } from '../commands/definition.ts';
import { commands } from '../commands/registry.ts';
import { CommandError } from '../core/command-error.ts';
import { undoDefinition } from '../history/undo-command.ts';
import { type AdminContext, createPastReader, type GatewayQuestions, requestActor } from './context.ts';
import { computeEffect } from './effect-of-events.ts';
import { poolTokens } from './live-counters.ts';
import type { AskedOf, OperationHandlers } from './operations.ts';

type Context = Pick<
  AdminContext,
  GatewayQuestions | 'snapshot' | 'writer' | 'past' | 'traffic' | 'usage' | 'counters'
>;

interface AskedCommand {
  readonly definition: CommandDefinition;
  readonly raw: { readonly params: Readonly<Record<string, string>>; readonly body: unknown };
}

/** Matches a path against a route. Returns the path's parameters, or undefined if it does not match. */
function matchPath(route: string, path: string): Readonly<Record<string, string>> | undefined {
  const names = route.split('/');
  const parts = path.split('/');
  if (names.length !== parts.length) return undefined;
  const params: Record<string, string> = {};
  for (const [at, name] of names.entries()) {
    const part = parts[at] ?? '';
    if (!name.startsWith(':')) {
      if (name !== part) return undefined;
      continue;
    }
    try {
      params[name.slice(1)] = decodeURIComponent(part);
    } catch {
      return undefined;
    }
  }
  return params;
}

const undoRoute = '/events/:position/undo';

async function findCommand(
  context: Context,
  asked: EffectRequest,
  { request, reply }: AskedOf<'effect.get'>,
  actor: Actor,
): Promise<AskedCommand> {
  const { method, path, body } =
    'fleet' in asked ? { method: 'POST', path: '/fleet/apply', body: asked } : asked;
  const below = path.startsWith(`${adminPrefix}/`) ? path.slice(adminPrefix.length) : path;
  for (const definition of commands) {
    const params = definition.method === method ? matchPath(definition.path, below) : undefined;
    if (params !== undefined) return { definition: chooseForm(definition, body), raw: { params, body } };
  }
  const undo = method === 'POST' ? matchPath(undoRoute, below) : undefined;
  const position = Number(undo?.['position']);
  if (undo === undefined || !Number.isSafeInteger(position))
    throw new CommandError('InvalidCommand', `${method} ${below} is not a command`, {
      next: 'give the method and path of a command as in the OpenAPI document',
    });
  // Authorises first, because whether a commit can be undone, and why not, reveals its content.
  authorise(context.snapshot.db, actor, adminOperations['commit.undo'].access, () => undefined);
  if (position > context.snapshot.seq || position < 1)
    throw new CommandError(
      'NotFound',
      `there is no position ${position}; the log is at ${context.snapshot.seq}`,
    );
  const inverse = await context.past.ask('inverse', [position], createPastReader(request, reply));
  return { definition: undoDefinition(context.snapshot, inverse), raw: { params: undo, body } };
}

async function effect(
  context: Context,
  asked: AskedOf<'effect.get'>,
): Promise<OperationAnswer<'effect.get'>> {
  const { request, reply } = asked;
  const actor = requestActor(request);
  const { definition, raw } = await findCommand(context, asked.body, asked, actor);
  const isOperator = actor.person === undefined;
  // Operators skip the guards, which would refuse the command before its effect is shown. A dry run writes nothing.
  const planned = await context.writer.run(definition, raw, {
    ...{ id: `effect-${randomUUID()}`, actor, dryRun: true, force: isOperator },
    used: (organisation, period) => poolTokens(context, organisation, period),
  });
  const own = isOperator ? undefined : keepOwn(context, actor, definition, raw);
  const { events = [] } = planned;
  const asks = { events, by: actorName(actor), organisation: own };
  return computeEffect(context, asks, {
    actor,
    position: planned.position,
    reader: createPastReader(request, reply),
  });
}

/** Returns the organisation whose effect a person may see. Authorises again, because the role may be gone by now. */
function keepOwn(
  { snapshot: { db } }: Context,
  actor: Actor,
  definition: CommandDefinition,
  raw: AskedCommand['raw'],
): string {
  const own = definition.findOrganisation?.(db, parseInput(definition, raw));
  authorise(db, actor, definition.access, () => own);
  // Without an organisation, the effect on all organisations would be shown, so refuse.
  if (own === undefined) throw new CommandError('Forbidden', 'only operators may ask this');
  return own;
}

export function effectHandlers(context: Context): OperationHandlers<'effect.get'> {
  return { 'effect.get': (asked) => effect(context, asked) };
}
