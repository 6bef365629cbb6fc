/** Runs one attack on a fleet for some seconds, while an observer sends the requests of other callers. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once, setMaxListeners } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as pause } from 'node:timers/promises';
import { scaledMs } from '../support/budget.ts';
import { operatorToken } from '../support/process-fleet.ts';
import { type AttackFleet, agentNode, bystander, residentMiBMax, small } from './fleet.ts';
import type { HostileServer } from './hostile-server.ts';
import type { Plan, WaitsByName } from './observer.ts';

export interface Stage {
  readonly fleet: AttackFleet;
  /** A server that acts as a hostile node, as a hostile control plane and as a listener that nobody may contact. */
  readonly hostile: HostileServer;
  /** Aborts when the attack must end. */
  readonly signal: AbortSignal;
}

export interface Attack {
  readonly name: string;
  /** Listener, log or file under attack. */
  readonly at: string;
  /**
   * Attacks until the signal aborts or the attack has nothing left to do. Returns all faults except those that the observer
   * sees.
   */
  readonly run: (stage: Stage) => Promise<readonly string[]>;
  /** True if the attack takes up to a minute to end. Only `npm run attack` runs it then, not the test. */
  readonly isLong?: true;
  /** Names of callers that share a bound with the attack. They may be refused, but not for long. */
  readonly mayRefuse?: readonly string[];
}

export interface Outcome {
  readonly name: string;
  readonly at: string;
  readonly seen: WaitsByName;
  readonly residentMiB: Readonly<Record<string, number>>;
  readonly turnsMs: Readonly<Record<string, number>>;
  readonly faults: readonly string[];
}

const observerFile = new URL(
  import.meta.url.includes('/dist/test/') ? './observer.js' : '../../dist/test/attacks/observer.js',
  import.meta.url,
).pathname;
/** Every caller must be answered at least once within this time, in ms. */
const answeredMsMax = 20_000;
/** Longest time that an attack may take to end after its signal, in ms. Anything longer is a fault. */
const endMs = 120_000;

function planOf(fleet: AttackFleet): Plan {
  const { admin, metrics } = fleet.plane.ready;
  const operator = { authorization: `Bearer ${operatorToken}` };
  const completion = {
    method: 'POST',
    headers: { authorization: `Bearer ${fleet.key(bystander)}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: small, messages: [{ role: 'user', content: 'hello' }] }),
  } as const;
  return {
    questions: {
      console: { url: `${fleet.console}/api/sign-in` },
      operator: { url: `${admin}/admin/v1/organisations`, headers: operator },
      agent: { url: `${admin}/admin/v1/nodes/${agentNode}`, headers: operator, contains: '"up":true' },
      gateway: { url: `${fleet.gateway.ready.api}/chat/completions`, ...completion },
      health: { url: `${metrics}/readyz` },
    },
    revocations: { admin, token: operatorToken, organisation: bystander, everyMs: 500 },
  };
}

export class Observer {
  readonly #child: ChildProcess;
  readonly #lines: AsyncIterator<string>;

  constructor(fleet: AttackFleet) {
    const file = join(fleet.dir, `observer.${Math.random().toString(36).slice(2)}.json`);
    writeFileSync(file, JSON.stringify(planOf(fleet)), { mode: 0o600 });
    this.#child = spawn(process.execPath, [observerFile, file], { stdio: ['pipe', 'pipe', 'inherit'] });
    this.#lines = createInterface({ input: this.#child.stdout as NodeJS.ReadableStream })[
      Symbol.asyncIterator
    ]();
  }

  /** Returns everything observed since the last call. */
  async seen(): Promise<WaitsByName> {
    this.#child.stdin?.write('\n');
    const { value } = await this.#lines.next();
    return JSON.parse(String(value)) as WaitsByName;
  }

  async close(): Promise<void> {
    if (this.#child.exitCode !== null) return;
    const exited = once(this.#child, 'exit');
    this.#child.stdin?.end();
    await exited;
  }
}

export async function runAttack(
  { name, at, run, mayRefuse = [] }: Attack,
  stage: Omit<Stage, 'signal'>,
  observer: Observer,
  seconds: number,
): Promise<Outcome> {
  const { fleet } = stage;
  fleet.resetResident();
  await fleet.longestTurnsMs();
  // Waits until the work that the previous attack left behind has finished, so that the new attack is not blamed for it.
  await observed(observer, 0.1);
  const end = new AbortController();
  // Each connection of the attack adds a listener to the signal.
  setMaxListeners(0, end.signal);
  const running = run({ ...stage, signal: end.signal }).catch(String);
  const seen = await observed(observer, seconds);
  end.abort();
  const found = await Promise.race([running, late(endMs)]);
  const residentMiB = fleet.residentMiB();
  const faults = [
    ...(typeof found === 'string' ? [found] : found),
    ...fleet.ended(),
    ...Object.entries(residentMiB)
      .filter(([, MiB]) => MiB > residentMiBMax)
      .map(([process, MiB]) => `${process} held ${MiB} MiB`),
    ...Object.entries(seen).flatMap(([caller, { answers, refusals, fault }]) => {
      if (answers === 0) return [`${caller} was not answered: ${fault}`];
      return refusals > 0 && !mayRefuse.includes(caller)
        ? [`${caller} was refused ${refusals} times: ${fault}`]
        : [];
    }),
  ];
  return { name, at, seen, residentMiB, turnsMs: await fleet.longestTurnsMs(), faults };
}

/** Observes for this time, then until every caller has been answered once, which takes longer on a busy machine. */
async function observed(observer: Observer, seconds: number): Promise<WaitsByName> {
  const startMs = performance.now();
  let seen: WaitsByName = {};
  for (let restMs = seconds * 1000; restMs > 0; ) {
    await pause(restMs);
    seen = merged(seen, await observer.seen());
    const isAnswered = Object.values(seen).every(({ answers }) => answers > 0);
    restMs = isAnswered ? 0 : Math.min(500, startMs + scaledMs(answeredMsMax) - performance.now());
  }
  return seen;
}

function merged(before: WaitsByName, after: WaitsByName): WaitsByName {
  return Object.fromEntries(
    Object.entries(after).map(([caller, waits]) => {
      const { answers = 0, refusals = 0, longestMs = 0, fault = '' } = before[caller] ?? {};
      return [
        caller,
        {
          answers: answers + waits.answers,
          refusals: refusals + waits.refusals,
          longestMs: Math.max(longestMs, waits.longestMs),
          fault: waits.fault || fault,
        },
      ];
    }),
  );
}

function late(ms: number): Promise<readonly string[]> {
  return new Promise((resolve) => setTimeout(resolve, ms, ['the attack did not end']).unref());
}
