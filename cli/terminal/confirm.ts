/**
 * Asks for confirmation before a destructive command. On a terminal the operator types the name of the resource.
 * Without a terminal --yes is required, because a prompt would wait without end.
 */
import { createInterface } from 'node:readline/promises';
import { requestOf } from '../../admin-client/call-path.ts';
import type { OperationName } from '../../schemas/admin-routes.ts';
import { printable } from '../../schemas/printable.ts';
import { CliError, interrupted, usageError } from './errors.ts';
import type { Session } from './session.ts';

/** The command that is to be confirmed. */
interface EffectOf {
  readonly name: OperationName;
  readonly input: object;
}

/**
 * `what` completes "type NAME to …", for example "delete the organisation acme". Returns after confirmation, with
 * --yes, or where nothing is written. Otherwise throws a CliError with exit 2, or 130 on Ctrl-C.
 */
export async function confirmDestructive(
  session: Session,
  name: string,
  what: string,
  asked?: EffectOf,
): Promise<void> {
  const { globals, io } = session;
  if (globals.yes || session.writesNothing) return;
  if (!io.stdin.isTTY || !io.stderr.isTTY)
    throw usageError(`cannot ask for confirmation without a terminal: ${what}`, 'add --yes');
  if (asked !== undefined) await noteEffect(session, asked);
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

/** For how long a confirmation waits for the effect. */
const effectTimeoutMs = 5000;

/** Who would be answered otherwise. Nothing is refused for want of it. */
export async function noteEffect(session: Session, { name, input }: EffectOf): Promise<void> {
  const { method, path, rest } = requestOf(name, input);
  if (method === 'GET') return;
  try {
    const api = await session.api();
    const body = Object.keys(rest).length > 0 && { body: rest };
    const effect = await api.run('effect.get', { method, path, ...body }, effectTimeoutMs);
    const { effectTexts } = await import('./effect-lines.ts');
    for (const text of effectTexts(session.out, effect)) session.note(text);
  } catch (error) {
    if (session.signal.aborted) throw interrupted();
    session.note(`its effect is not known: ${error instanceof Error ? error.message : String(error)}`);
  }
}
