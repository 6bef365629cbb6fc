/** Waits until every gateway has confirmed a position. If the control plane is unreachable, retries until the deadline. */

import { sleep } from '../../shared/runtime/retry.ts';
import type { AdminClient } from '../admin-client/admin-client.ts';
import { AdminError } from '../admin-client/admin-error.ts';
import type { Resource } from '../admin-client/answers.ts';
import { CliError, Exit, errorText, interrupted } from '../terminal/errors.ts';
import type { Session } from '../terminal/session.ts';

export interface Confirmation {
  readonly name: string;
  /** Id of the gateway's process. Set only if several processes report under the same name. */
  readonly incarnation?: string;
  readonly confirmed: boolean;
  /** Time in seconds from the start of the wait to the confirmation or, if there was none, to the last poll. */
  readonly seconds: number;
}

/** Prints `resource` with the gateways' confirmations. Throws Exit with code 5 if a gateway has not confirmed in time. */
export async function waitUntilConfirmed(
  session: Session,
  resource: Resource,
  waitSeconds: number,
  what: string,
): Promise<void> {
  const outcome = await poll(session, Number(resource['position']), waitSeconds);
  const { complete, lost, reason } = outcome;
  const gateways = outcome.gateways.map((gateway) => dropIncarnation(gateway, outcome.gateways));
  const lines = gateways.map(
    (gateway) =>
      `${label(gateway)}  ${gateway.confirmed ? 'confirmed' : 'NOT CONFIRMED'}  ${gateway.seconds}s`,
  );
  const sentence = `${what} revoked at position ${String(resource['position'])}`;
  await session.out.lines([sentence, ...lines], { ...resource, gateways }, resource['id']);
  if (complete) return;
  const missing = gateways.filter(({ confirmed }) => !confirmed).map(label);
  const failure = new CliError(
    missing.length > 0
      ? `not confirmed within ${waitSeconds}s by ${missing.join(', ')}`
      : `no complete list of gateways was available within ${waitSeconds}s`,
    {
      type: 'NotConfirmed',
      why: [
        `it is revoked at position ${String(resource['position'])}, but these gateways may still accept it`,
        ...(reason === undefined ? [] : [reason]),
        ...(lost ? [lost.message, ...lost.why] : []),
      ],
      next: 'headgate gateway list; stop a gateway that cannot catch up, forget one that no longer exists',
    },
  );
  session.io.stderr.write(errorText(failure));
  throw new Exit(5);
}

interface WaitState {
  readonly complete: boolean;
  readonly gateways: readonly Confirmation[];
  /** Another reason why the wait is incomplete, besides gateways that have not confirmed. */
  readonly reason?: string | undefined;
  /** Error of the last poll, if that poll failed. */
  readonly lost?: AdminError;
}

/** Shortest time in seconds between two polls. */
const pollPauseSeconds = 0.5;

async function poll(session: Session, position: number, waitSeconds: number): Promise<WaitState> {
  const api = await session.api();
  const beganMs = performance.now();
  const elapsed = (): number => (performance.now() - beganMs) / 1000;
  // Report progress every second on a terminal, but only every five seconds otherwise, because the output may be a log file.
  const stepSeconds = session.io.stderr.isTTY ? 1 : 5;
  let last: WaitState = { complete: false, gateways: [] };
  for (;;) {
    const polledAt = elapsed();
    const remainingSeconds = Math.max(0, waitSeconds - polledAt);
    try {
      const answer = await confirmations(api, position, Math.min(stepSeconds, remainingSeconds));
      last = { ...answer, gateways: merge(last.gateways, answer.gateways, polledAt) };
    } catch (error) {
      if (session.signal.aborted) throw interrupted();
      if (!(error instanceof AdminError && error.isUnreachable)) throw error;
      last = { ...last, complete: false, lost: error };
      await pause(session, Math.min(pollPauseSeconds, remainingSeconds));
    }
    if (last.complete || elapsed() >= waitSeconds) return last;
    reportProgress(session, last.gateways, elapsed());
    // The control plane usually holds the request open. If it responds at once, pause here to avoid a busy loop.
    const earlySeconds = pollPauseSeconds - (elapsed() - polledAt);
    await pause(session, Math.max(0, Math.min(earlySeconds, waitSeconds - elapsed())));
  }
}

/** Waits for a number of seconds. Ends early on Ctrl-C. */
async function pause({ signal }: Session, seconds: number): Promise<void> {
  await sleep(seconds * 1000, signal);
}

function confirmations(api: AdminClient, position: number, timeoutSeconds: number): Promise<WaitState> {
  const seconds = Math.round(timeoutSeconds * 1000) / 1000;
  const waited = { position, timeoutSeconds: seconds };
  return api.run('confirmations.get', waited, Math.ceil(seconds * 1000) + 10_000);
}

/** Merges two polls' results. Gateways already confirmed keep their time; other times count from the start of the wait. */
function merge(
  before: readonly Confirmation[],
  now: readonly Confirmation[],
  polledAtSeconds: number,
): Confirmation[] {
  return now.map((gateway) => {
    const earlier = before.find(
      ({ name, incarnation }) => name === gateway.name && incarnation === gateway.incarnation,
    );
    if (earlier?.confirmed && gateway.confirmed) return earlier;
    return { ...gateway, seconds: Math.round((polledAtSeconds + gateway.seconds) * 1000) / 1000 };
  });
}

/** Removes the process id, unless two processes share the gateway's name. */
function dropIncarnation(gateway: Confirmation, all: readonly Confirmation[]): Confirmation {
  if (all.filter(({ name }) => name === gateway.name).length > 1) return gateway;
  const { name, confirmed, seconds } = gateway;
  return { name, confirmed, seconds };
}

function label({ name, incarnation }: Confirmation): string {
  return incarnation === undefined ? name : `${name} (process ${incarnation.slice(0, 8)})`;
}

function reportProgress(session: Session, gateways: readonly Confirmation[], elapsedSeconds: number): void {
  const waiting = gateways.filter(({ confirmed }) => !confirmed).map(({ name }) => name);
  const done = gateways.length - waiting.length;
  session.note(
    `confirmed ${done}/${gateways.length} gateways  ${elapsedSeconds.toFixed(1)}s  waiting for ${waiting.join(', ') || 'the control plane'}`,
  );
}
