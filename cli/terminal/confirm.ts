/**
 * Asks before something is destroyed. On a terminal the person types the name of what goes; without a terminal only
 * --yes counts, because a prompt that nobody sees would wait for ever.
 */
import { createInterface } from 'node:readline/promises';
import { CliError, interrupted, usageError } from './errors.ts';
import type { Session } from './session.ts';
import { printable } from './text.ts';

/**
 * `what` completes "to …": "delete the organisation acme". Returns where the person agrees, or where nothing will change
 * anyway (--dry-run). Throws a CliError with exit 2 otherwise, 130 at an interrupt.
 */
export async function confirmDestructive(session: Session, name: string, what: string): Promise<void> {
  const { globals, io } = session;
  if (globals.yes || globals.dryRun) return;
  if (!io.stdin.isTTY || !io.stderr.isTTY)
    throw usageError(`to ${what} needs --yes, because there is no terminal to ask on`, 'add --yes');
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
  throw new CliError(`not confirmed: nothing was changed`, {
    type: 'NotConfirmed',
    exitCode: 2,
    next: `type ${name}, or add --yes`,
  });
}
