/**
 * Waits until every gateway has confirmed a position, and says which did and how long each took.
 * What was published stays published: a control plane that is lost while we wait is asked again until the deadline.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { type AdminClient, route } from '../terminal/client.ts';
import { CliError, Exit, errorText, interrupted } from '../terminal/errors.ts';
import type { Resource } from '../terminal/render.ts';
import type { Session } from '../terminal/session.ts';

export interface Confirmation {
  readonly name: string;
  /** Where several processes report under the name: which one this is. */
  readonly incarnation?: string;
  readonly confirmed: boolean;
  /** Since the wait began; for one that has not confirmed, how long it was waited for. */
  readonly seconds: number;
}

/** Shows `thing` with its confirmations. Throws Exit 5 where some gateway did not confirm in time. */
export async function waitUntilConfirmed(
  session: Session,
  resource: Resource,
  waitSeconds: number,
  what: string,
): Promise<void> {
  const outcome = await ask(session, Number(resource['position']), waitSeconds);
  const { complete, lost, reason } = outcome;
  const gateways = outcome.gateways.map((gateway) => shown(gateway, outcome.gateways));
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
      : `not every gateway could be asked within ${waitSeconds}s`,
    {
      type: 'NotConfirmed',
      exitCode: 5,
      why: [
        `it is revoked at position ${String(resource['position'])}; these gateways may still accept it`,
        ...(reason === undefined ? [] : [reason]),
        ...(lost ? [lost.message, ...lost.why] : []),
      ],
      next: 'headgate gateway list; stop a gateway that cannot catch up, forget one that is gone for good',
    },
  );
  session.io.stderr.write(errorText(failure));
  throw new Exit(5);
}

interface Outcome {
  readonly complete: boolean;
  readonly gateways: readonly Confirmation[];
  /** Why it is not complete, beside the gateways that have not confirmed. */
  readonly reason?: string;
  /** The last failure to ask, where the deadline came without an answer after it. */
  readonly lost?: CliError;
}

/** Between two questions at least. */
const askPauseSeconds = 0.5;

async function ask(session: Session, position: number, waitSeconds: number): Promise<Outcome> {
  const api = await session.api();
  const beganMs = performance.now();
  const elapsed = (): number => (performance.now() - beganMs) / 1000;
  // A person watches one line grow; a log gets a line every five seconds.
  const stepSeconds = session.io.stderr.isTTY ? 1 : 5;
  let last: Outcome = { complete: false, gateways: [] };
  for (;;) {
    const askedAt = elapsed();
    const leftSeconds = Math.max(0, waitSeconds - askedAt);
    try {
      const answer = await confirmations(api, position, Math.min(stepSeconds, leftSeconds));
      last = { ...answer, gateways: merge(last.gateways, answer.gateways, askedAt) };
    } catch (error) {
      if (session.signal.aborted) throw interrupted();
      if (!(error instanceof CliError) || error.exitCode !== 7) throw error;
      last = { ...last, complete: false, lost: error };
      await pause(session, Math.min(askPauseSeconds, leftSeconds));
    }
    if (last.complete || elapsed() >= waitSeconds) return last;
    tell(session, last.gateways, elapsed());
    // The control plane is to wait for us; one that answers at once must not be asked at once again.
    const earlySeconds = askPauseSeconds - (elapsed() - askedAt);
    await pause(session, Math.max(0, Math.min(earlySeconds, waitSeconds - elapsed())));
  }
}

/** Ends early at an interrupt. */
async function pause({ signal }: Session, seconds: number): Promise<void> {
  await sleep(seconds * 1000, undefined, { signal }).catch(() => undefined);
}

async function confirmations(api: AdminClient, position: number, timeoutSeconds: number): Promise<Outcome> {
  const path = route`/confirmations/${String(position)}`;
  const seconds = Math.round(timeoutSeconds * 1000) / 1000;
  const answer = await api.get(path, { timeoutSeconds: seconds }, Math.ceil(seconds * 1000) + 10_000);
  const gateways = (Array.isArray(answer['gateways']) ? answer['gateways'] : []) as Resource[];
  return {
    complete: answer['complete'] === true,
    ...(typeof answer['reason'] === 'string' && { reason: answer['reason'] }),
    gateways: gateways.map(({ name, incarnation, confirmed, seconds: took }) => ({
      name: String(name),
      ...(typeof incarnation === 'string' && { incarnation }),
      confirmed: confirmed === true,
      seconds: Number(took) || 0,
    })),
  };
}

/** Who had confirmed keeps the time it took; the others' times count from the beginning of the whole wait. */
function merge(
  before: readonly Confirmation[],
  now: readonly Confirmation[],
  askedAtSeconds: number,
): Confirmation[] {
  return now.map((gateway) => {
    const earlier = before.find(
      ({ name, incarnation }) => name === gateway.name && incarnation === gateway.incarnation,
    );
    if (earlier?.confirmed && gateway.confirmed) return earlier;
    return { ...gateway, seconds: Math.round((askedAtSeconds + gateway.seconds) * 1000) / 1000 };
  });
}

/** An incarnation is shown only where two processes share a name. */
function shown(gateway: Confirmation, all: readonly Confirmation[]): Confirmation {
  if (all.filter(({ name }) => name === gateway.name).length > 1) return gateway;
  const { name, confirmed, seconds } = gateway;
  return { name, confirmed, seconds };
}

function label({ name, incarnation }: Confirmation): string {
  return incarnation === undefined ? name : `${name} (process ${incarnation.slice(0, 8)})`;
}

function tell(session: Session, gateways: readonly Confirmation[], elapsedSeconds: number): void {
  const waiting = gateways.filter(({ confirmed }) => !confirmed).map(({ name }) => name);
  const done = gateways.length - waiting.length;
  session.note(
    `confirmed ${done}/${gateways.length} gateways  ${elapsedSeconds.toFixed(1)}s  waiting for ${waiting.join(', ') || 'the control plane'}`,
  );
}
