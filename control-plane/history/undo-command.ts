/**
 * A commit taken back by one commit: the commands of its inverse, decided one after the other, each on the state that those
 * before it leave, and written together or not at all.
 */
import type { KnownEvent } from '../../schemas/events.ts';
import type { Snapshot } from '../../shared/snapshot/snapshot.ts';
import { actorName } from '../commands/authorise.ts';
import { type CommandDefinition, defineCommand, parseInput, planCommand } from '../commands/definition.ts';
import { commands } from '../commands/registry.ts';
import { type CommitInverse, checkUnchanged, type UndoCommand } from './undo.ts';

/** Decided like any command on the state at the head, in one turn, so nothing is written between its decision and the append. */
export function undoDefinition(snapshot: Snapshot, inverse: CommitInverse): CommandDefinition {
  return defineCommand('commit.undo', {
    decide: (db, { params: { position } }, context) => {
      checkUnchanged(inverse, db, position);
      const { nowMs: atMs, actor } = context;
      const events: KnownEvent[] = [];
      const steps = function* () {
        for (const command of inverse.commands) {
          const { definition, params } = definitionOf(command);
          const input = parseInput(definition, { params, body: command.body });
          for (const event of planCommand(definition, db, input, context).events) {
            events.push(event);
            yield event;
          }
        }
      };
      const commit = { seq: snapshot.seq + 1, atMs, by: actorName(actor) };
      snapshot.stateAt({ kind: 'previewed', events: steps(), context: commit }, () => undefined);
      return { events, extra: { commands: inverse.commands } };
    },
    show: (_db, { params: { position: of } }) => ({ of, commands: [] }),
  });
}

/** The command of the API with this method and path. */
function definitionOf({ method, path }: UndoCommand): {
  readonly definition: CommandDefinition;
  readonly params: Readonly<Record<string, string>>;
} {
  for (const definition of commands) {
    const params = definition.method === method ? paramsIn(definition.path, path) : undefined;
    if (params !== undefined) return { definition, params };
  }
  throw new Error(`no command is ${method} ${path}`);
}

/** The `:name` parts of a pattern; undefined where the path is another one. */
function paramsIn(pattern: string, path: string): Record<string, string> | undefined {
  const given = path.split('/');
  const wanted = pattern.split('/');
  if (given.length !== wanted.length) return undefined;
  const params: Record<string, string> = {};
  for (const [index, part] of wanted.entries()) {
    const value = given[index] ?? '';
    if (part.startsWith(':')) params[part.slice(1)] = decodeURIComponent(value);
    else if (part !== value) return undefined;
  }
  return params;
}
