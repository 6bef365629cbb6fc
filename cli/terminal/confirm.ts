/** Asks the user to type a resource's name. Without a terminal, --yes is required, because a prompt would wait forever. */
import { createInterface } from 'node:readline/promises';
import type { OperationName } from '../../schemas/admin/admin-routes.ts';
import { printable } from '../../schemas/printable.ts';
import { CliError, interrupted, usageError } from './errors.ts';
import type { Session } from './session.ts';

/** Returns if the user confirms, or if --yes or a dry run makes confirmation needless. `what` completes "type NAME to …". */
export async function confirmDestructive(
  session: Session,
  name: string,
  what: string,
  asked?: { readonly name: OperationName; readonly input: object },
): Promise<void> {
  const { globals, io } = session;
  if (globals.yes || session.writesNothing) return;
  if (!io.stdin.isTTY || !io.stderr.isTTY)
    throw usageError(`cannot ask for confirmation without a terminal: ${what}`, 'add --yes');
  if (asked !== undefined) await session.noteEffect(asked.name, asked.input, 'all');
  const reader = createInterface({ input: io.stdin, output: io.stderr, terminal: false });
  try {
    const typed = await Promise.race([
      reader.question(printable(`type ${name} to ${what}: `), { signal: session.signal }),
      new Promise<undefined>((resolve) => reader.once('close', () => resolve(undefined))),
    ]);
    if (typed?.trim() === name) return;
  } catch (error) {
    if (session.signal.aborted) throw interrupted();
    throw error;
  } finally {
    reader.close();
  }
  throw new CliError('not confirmed, nothing was changed', {
    type: 'NotConfirmed',
    exitCode: 2,
    next: `type ${name}, or add --yes`,
  });
}
