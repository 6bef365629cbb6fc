/** Undoes a commit with a single new one. The commands of the inverse are decided one by one; all or none are written. */
import { adminOperations, type OperationAnswer } from '../../schemas/admin/admin.ts';
import { operationRoute, resolvePath } from '../../schemas/admin/admin-routes.ts';
import type { OperationRow } from '../../schemas/admin/admin-row.ts';
import type { KnownEvent } from '../../schemas/events/events.ts';
import type { UndoCommand } from '../../shared/snapshot/effect.ts';
import type { Snapshot } from '../../shared/snapshot/snapshot.ts';
import { actorName } from '../commands/authorise.ts';
import { type CommandDefinition, defineCommand, parseInput, planCommand } from '../commands/definition.ts';
import { commandsByName } from '../commands/registry.ts';
import { type CommitInverse, checkUnchanged } from './undo.ts';

/** Defines the undo as a command. It is decided in one turn of the event loop, so that the state cannot change meanwhile. */
export function undoDefinition(snapshot: Snapshot, inverse: CommitInverse): CommandDefinition {
  return defineCommand('commit.undo', {
    decide: (db, { params: { position } }, context) => {
      checkUnchanged(inverse, db, position);
      const { nowMs: atMs, actor } = context;
      const events: KnownEvent[] = [];
      const steps = function* () {
        for (const command of inverse.commands) {
          const definition = commandsByName[command.name];
          const { params, rest } = resolvePath(command.name, command.input);
          const input = parseInput(definition, { params, body: rest });
          for (const event of planCommand(definition, db, input, context).events) {
            events.push(event);
            yield event;
          }
        }
      };
      const commit = { seq: snapshot.seq + 1, atMs, by: actorName(actor) };
      snapshot.stateAt({ kind: 'previewed', events: steps(), context: commit }, () => undefined);
      return { events, extra: { commands: inverse.commands.map(shownCommand) } };
    },
    show: (_db, { params: { position: of } }) => ({ of, commands: [] }),
  });
}

/** Converts a command to the form that the API shows to people. */
export function shownCommand({
  name,
  input,
}: UndoCommand): OperationAnswer<'commit.undo'>['commands'][number] {
  const { method } = operationRoute(name);
  const { path, rest } = resolvePath(name, input);
  const { body }: OperationRow = adminOperations[name];
  return { method, path, ...(body && { body: rest }) };
}
