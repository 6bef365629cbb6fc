/**
 * Sends a stream of commands to two control planes and audits the responses. Workers create and revoke keys and compete for
 * the same stack ids, so some commands must be refused. A command whose outcome is unknown is repeated with its own
 * Idempotency-Key, possibly at the other control plane. Some commands that changed nothing are dropped.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { type AdminAnswer, answerOfAdmin } from '../support/ask-admin.ts';
import { seededRandom } from '../support/random.ts';
import { organisation, type Plane } from './fleet.ts';

/**
 * How a command ended. `done` commands were carried out, now or by an earlier attempt. `refused` and `dropped` commands
 * changed nothing.
 */
export type Fate = 'done' | 'unchanged' | 'refused' | 'dropped';

export interface Sent {
  readonly id: string;
  readonly fate: Fate;
  /** Position of the command's commit according to the response, or 0 if the response names none. */
  readonly position: number;
  readonly attempts: number;
  /** Time from the first attempt until the command was decided, in ms. */
  readonly tookMs: number;
}

export interface StreamOptions {
  readonly planes: () => readonly Plane[];
  readonly workers: number;
  readonly seed: number;
  /** Called before each command. Returns false to end the stream of commands. */
  readonly shouldContinue: () => boolean;
  readonly onSent?: (sent: Sent) => void;
  /** Time for which a command is repeated before the scenario gives up, in ms. */
  readonly undecidedMsMax?: number;
}

interface ChaosCommand {
  readonly path: string;
  readonly body?: unknown;
}

/**
 * The decided commands, and the number of responses that decided nothing. These are counted by error type, and missing
 * responses under `no answer`.
 */
export interface Stream {
  readonly sent: readonly Sent[];
  readonly troubles: Readonly<Record<string, number>>;
}

export async function stream(options: StreamOptions): Promise<Stream> {
  const sent: Sent[] = [];
  const troubles: Record<string, number> = {};
  const keys: string[] = [];
  let commands = 0;
  const worker = async (number: number): Promise<void> => {
    const random = seededRandom(options.seed * 1000 + number);
    while (options.shouldContinue()) {
      const wanted = wantedFrom(random, commands++, keys);
      const { answer, ...one } = await decide(options, wanted, { random, number, troubles });
      if (wanted.path === '/keys' && typeof answer?.body['id'] === 'string') keys.push(answer.body['id']);
      sent.push(one);
      options.onSent?.(one);
    }
  };
  await Promise.all(Array.from({ length: options.workers }, (_, number) => worker(number)));
  return { sent, troubles };
}

function wantedFrom(random: () => number, n: number, keys: readonly string[]): ChaosCommand {
  const kind = random();
  const key = keys[Math.floor(random() * keys.length)];
  if (kind < 0.25 && key !== undefined) return { path: `/keys/${key}/revoke` };
  // Several workers ask for the same stack id at about the same time, and only one of them gets it.
  if (kind < 0.5) return { path: '/stacks', body: { organisation, id: `stk-race-for-${Math.floor(n / 6)}` } };
  return { path: '/keys', body: { organisation, name: `key ${n}`, expires: '30d' } };
}

interface Worker {
  readonly random: () => number;
  readonly number: number;
  readonly troubles: Record<string, number>;
}

async function decide(
  { planes, undecidedMsMax = 120_000 }: StreamOptions,
  { path, body }: ChaosCommand,
  { random, number, troubles }: Worker,
): Promise<Sent & { readonly answer?: AdminAnswer }> {
  const id = randomUUID();
  const startedMs = performance.now();
  let mayBeCarriedOut = false;
  for (let attempts = 1; ; attempts++) {
    const all = planes();
    const plane = all[(number + attempts - 1) % all.length]!;
    const answer = await answerOfAdmin(plane.ready.admin, path, { id, body: body ?? {} }).catch(
      () => undefined,
    );
    const tookMs = performance.now() - startedMs;
    const said = { id, attempts, tookMs, position: Number(answer?.body['position'] ?? 0) };
    if (answer?.status === 200) {
      const fate = answer.body['unchanged'] === true ? 'unchanged' : 'done';
      return { ...said, fate, ...(fate === 'unchanged' && { position: 0 }), answer };
    }
    const type = (answer?.body['error'] as { type?: string } | undefined)?.type ?? 'no answer';
    if (answer && answer.status !== 503) return { ...said, fate: 'refused', position: 0, answer };
    troubles[type] = (troubles[type] ?? 0) + 1;
    // The error "Nothing was changed" covers one attempt only. An earlier attempt with an unknown outcome may have succeeded.
    mayBeCarriedOut ||= type !== 'LogUnavailable';
    if (!mayBeCarriedOut && random() < 0.2) return { ...said, fate: 'dropped', position: 0 };
    if (tookMs > undecidedMsMax) throw new Error(`command ${id} is still undecided: ${type}`);
    await pause(50 + random() * 200);
  }
}

/** Returns the responses that contradict the log. `commits` contains the log positions of each command id. */
export function audit(sent: readonly Sent[], commits: ReadonlyMap<string, readonly number[]>): string[] {
  return sent.flatMap(({ id, fate, position }) => {
    const found = commits.get(id) ?? [];
    if (fate === 'done')
      return found.length === 1 && found[0] === position
        ? []
        : [`${id} was acknowledged at ${position}, and stands at ${found.join() || 'no position'}`];
    return found.length === 0 ? [] : [`${id} was ${fate}, and stands at ${found.join()}`];
  });
}

export function countsOf(sent: readonly Sent[]): Record<Fate | 'repeatedly', number> {
  const count = (wanted: Fate) => sent.filter(({ fate }) => fate === wanted).length;
  return {
    done: count('done'),
    unchanged: count('unchanged'),
    refused: count('refused'),
    dropped: count('dropped'),
    repeatedly: sent.filter(({ attempts }) => attempts > 1).length,
  };
}
