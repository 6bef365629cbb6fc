/** Sends requests to a fleet, has each explained, and compares all that the explanation says with what the test knows. */
import { expect } from 'vitest';
import { AdminError } from '../../admin-client/admin-error.ts';
import { type Explanation, explanationSchema } from '../../schemas/explanations.ts';
import { visitorsSubject } from '../../schemas/limits.ts';
import { windowStartMs } from '../../shared/decision/decide.ts';
import type { StepName } from '../../shared/decision/step.ts';
import type { Answer } from '../support/api.ts';
import { operatorToken } from '../support/process-fleet.ts';
import { runCli } from '../support/run-cli.ts';
import { until } from '../support/until.ts';
import { type Asked, type Held, hold, isListing, newVisitor, send } from './asked.ts';
import { Counted } from './counted.ts';
import { ExplainedFleet, freeTurns, places, stackModels, stacks, visitorLimits } from './explained-fleet.ts';
import {
  countedAs,
  isOwn,
  isPooled,
  type Known,
  oracle,
  seenNow,
  tierFor,
  tierNameOf,
  weightOf,
} from './step-oracle.ts';

type Replied = Pick<Answer, 'status' | 'fields' | 'content'>;
interface Times {
  readonly from: number;
  readonly to: number;
}
interface HeldOne {
  readonly known: Known;
  readonly held: Held;
  readonly times: Times;
}

const none = /^$/;
/** Each has the refusals that it may be the cause of, as far as the requests of these tests have any. */
const refusals: Readonly<Record<StepName, RegExp>> = {
  http: /^UnsupportedShapeError$/,
  host: /^NotFoundError$/,
  key: /^Unauthorized$/,
  fresh: none,
  path: /^NotFoundError$/,
  shape: /^UnsupportedShapeError$/,
  usage: none,
  plan: /^ModelNotInPlanError$/,
  context: /^ContextWindowExceededError$/,
  allowance: /^InferenceUpsellError$/,
  'network allowance': /^InferenceUpsellError$/,
  'visitor tokens': /^InferenceUpsellError$/,
  requests: /^InferenceRateLimitedError$/,
  'visitor requests': /^InferenceRateLimitedError$/,
  concurrency: /^InferenceConcurrencyLimitedError$/,
  'visitor concurrency': /^InferenceConcurrencyLimitedError$/,
  stack: /^TargetNotServingError$/,
  surface: /^UnsupportedShapeError$/,
  'own nodes': none,
  pool: /^(?:DedicatedOnlyModelError|InferenceUnavailableError)$/,
  tier: /^ModelNotInPlanError$/,
  nodes: /^(?:InferenceUnavailableError|TargetNotServingError)$/,
  listing:
    /^(?:ModelNotInPlanError|TargetNotServingError|InferenceUnavailableError|DedicatedOnlyModelError)$/,
  answer: /^(?:InferenceUnavailableError|UnsupportedShapeError|ContextWindowExceededError)$/,
};
/** The events that make steps say so. */
const events: readonly (readonly [RegExp, string])[] = [
  [/ is drained/, 'node.drained'],
  [/ is revoked$/, 'key.revoked'],
  [/ is expired$/, 'key.created'],
  [/ is suspended$/, 'organisation.suspended'],
];
const heldMsMax = 25_000;

/** The verdict on a whole answer, and on one that its client left. */
const served = { outcome: 'served', served: true, status: 200 };
const leftByClient = {
  ...{ outcome: 'ended', served: false, status: 200, endedBy: 'client', phase: 'answering' },
  message: expect.stringMatching(/^ended by the client: it left after [\d.]+ m?s; nothing was billed$/),
};
/** One in so many is asked for on the command line too. */
const cliEvery = 25;

export class ExplainedTraffic {
  readonly fleet: ExplainedFleet;
  readonly counted = new Counted();
  readonly drained = new Set<string>();
  readonly adjusted = new Map<string, number>();
  readonly installs = new Map(Object.entries(stackModels).map(([id, models]) => [id, new Set(models)]));
  freeTurns = freeTurns;
  isPaused = true;
  readonly held: HeldOne[] = [];
  /** Results of steps that were seen, as `step result`. */
  readonly results = new Set<string>();
  /** Types of refusals, and `served`. */
  readonly answers = new Map<string, number>();
  explained = 0;
  readonly #cookies: string[] = [];
  readonly #visitors: string[] = [];

  constructor(fleet: ExplainedFleet) {
    this.fleet = fleet;
  }

  static async begin(): Promise<ExplainedTraffic> {
    const traffic = new ExplainedTraffic(await ExplainedFleet.begin());
    for (const visitor of [0, 1]) await traffic.#meet(visitor);
    return traffic;
  }

  /** The minute of a visitor is that of an id that only gateways know. */
  async #meet(visitor: number): Promise<void> {
    this.#cookies.push(await newVisitor(this.fleet));
    const asked: Asked = { ...turnOf(visitor), gateway: visitor };
    const answer = await send(this.fleet, asked, this.#cookies);
    expect(answer.status, answer.content).toBe(200);
    const found = await this.explain(answer);
    const path = `/decisions/${answer.fields['x-request-id']}` as const;
    const { decision } = (await this.fleet.client.call('GET', path)) as { decision: { visitor: string } };
    this.#visitors.push(`visitor:${decision.visitor}`);
    this.#count(this.known(asked), answer, found);
  }

  known(asked: Asked, others = 0): Known {
    const { visitor, gateway, host, who } = asked;
    // The second key counts at the stack of its organisation alone.
    const key = this.fleet.keys.get(who === 'two' && host !== stacks.heron ? 'acme' : who);
    const subject = visitor === undefined ? (key?.organisation ?? '') : (this.#visitors[visitor] ?? '');
    const { counted } = this;
    return {
      ...{ asked, key: visitor === undefined ? key : undefined, subject, others, counted },
      drained: new Set(this.drained),
      isPaused: this.isPaused,
      stackInstalled: new Set(this.installs.get(host) ?? []),
      freeTurns: this.freeTurns,
      adjusted: this.adjusted.get(subject) ?? 0,
      seen: seenNow(counted, { subject, gateway }),
    };
  }

  /** One request to its end; gives what is said of it. */
  async ask(asked: Asked): Promise<Explanation> {
    await this.closeOld();
    const known = this.known(asked);
    const from = Date.now();
    const answer = await send(this.fleet, asked, this.#cookies);
    return this.#check(known, answer, { from, to: Date.now() });
  }

  /** Requests at the same moment; each is compared with what was counted before all of them. */
  async burst(all: readonly Asked[]): Promise<void> {
    await this.closeOld();
    const known = all.map((asked) => this.known(asked, all.length - 1));
    const from = Date.now();
    const answers = await Promise.all(all.map((asked) => send(this.fleet, asked, this.#cookies)));
    const times = { from, to: Date.now() };
    const each: { readonly known: Known; readonly answer: Answer; readonly found: Explanation }[] = [];
    for (const [at, answer] of answers.entries())
      each.push({ known: known[at] as Known, answer, found: await this.explain(answer) });
    for (const one of each) this.#compare(one.known, one.answer, one.found, times);
    checkTurns(each);
    for (const one of each) this.#count(one.known, one.answer, one.found);
  }

  /** A stream that stays open; where it is refused it is as any other. */
  async open(asked: Asked): Promise<void> {
    const known = this.known(asked);
    const from = Date.now();
    const held = await hold(this.fleet, asked, this.#cookies);
    const times = { from, to: Date.now() };
    if (held.answer.status !== 200) {
      await held.close();
      await this.#check(known, held.answer, times);
      return;
    }
    this.held.push({ known, held, times });
    this.#flight(known, 1);
    const straddles = subjectsOf(known).some(
      (subject) => windowStartMs(subject, from) !== windowStartMs(subject, times.to),
    );
    // It counts in its minute from now on, whenever it is explained.
    for (const subject of subjectsOf(known)) this.counted.decided(subject, asked.gateway, from);
    // In which minute is known only at its end.
    if (straddles) await this.close(this.held.length - 1);
  }

  /** A gateway ends a stream of which nothing comes for a minute. */
  async closeOld(): Promise<void> {
    while ((this.held[0]?.times.from ?? Date.now()) < Date.now() - heldMsMax) await this.close(0);
  }

  async close(index: number): Promise<void> {
    const [one] = this.held.splice(index % Math.max(1, this.held.length), 1);
    if (one === undefined) return;
    await one.held.close();
    const found = await this.explain(one.held.answer);
    this.#flight(one.known, -1);
    const at = Date.parse(found.time ?? '');
    for (const subject of subjectsOf(one.known))
      this.counted.moved(subject, one.known.asked.gateway, one.times.from, at);
    if (one.known.asked.visitor !== undefined) this.#stopped(one.known);
    this.#compare(one.known, one.held.answer, found, one.times, leftByClient);
  }

  #flight(known: Known, sign: 1 | -1): void {
    const { gateway, visitor } = known.asked;
    const own = tierFor(known).concurrency;
    this.counted.inFlight.of(known.subject, gateway).add(sign * weightOf(known, own));
    if (visitor === undefined) return;
    const all = weightOf(known, visitorLimits.total.concurrency);
    this.counted.inFlight.of(visitorsSubject, gateway).add(sign * all);
    for (const subject of [known.subject, 'network']) this.counted.turns.of(subject, gateway).add(sign);
  }

  /** What the node had done for a visitor who left is a turn of the network, and tokens of all visitors. */
  #stopped({ asked: { gateway } }: Known): void {
    this.counted.turns.of('network', gateway).slack += 1;
    this.counted.tokens.of(visitorsSubject, gateway).slack += 1000;
  }

  async explain({ fields }: Replied): Promise<Explanation> {
    const request = fields['x-request-id'] ?? '';
    let found: unknown;
    await until(async () => {
      found = await this.fleet.client.call('POST', '/explain', { request }).catch(notFound);
      return found !== undefined;
    }, 30_000);
    if (this.explained++ % cliEvery === 0) await this.#sameOnCommandLine(request, found as Explanation);
    return explanationSchema.parse(found);
  }

  async #sameOnCommandLine(request: string, found: Explanation): Promise<void> {
    const env = { HEADGATE_ADMIN: this.fleet.plane.ready.admin, HEADGATE_TOKEN: operatorToken };
    const run = await runCli(['explain', '--request', request, '-o', 'json'], { env });
    const { verdict, steps, decisive } = JSON.parse(run.out) as Explanation;
    expect({ verdict, steps, decisive }).toEqual({
      ...{ verdict: found.verdict, steps: found.steps, decisive: found.decisive },
    });
    const table = await runCli(['explain', '--request', request], { env });
    for (const { text } of found.steps) expect(table.out).toContain(text);
  }

  async #check(known: Known, answer: Replied, times: Times): Promise<Explanation> {
    const found = await this.explain(answer);
    this.#compare(known, answer, found, times);
    this.#count(known, answer, found);
    return found;
  }

  #compare(
    known: Known,
    answer: Replied,
    found: Explanation,
    { from, to }: Times,
    answered: object = served,
  ): void {
    const { asked } = known;
    const error = answer.status === 200 ? undefined : errorOf(answer);
    const label = JSON.stringify({ asked, answer: error ?? answer.status, steps: found.steps }, null, 1);
    this.answers.set(error?.type ?? 'served', (this.answers.get(error?.type ?? 'served') ?? 0) + 1);
    expect(found.verdict, label).toEqual(
      error === undefined
        ? answered
        : {
            outcome: 'refused',
            served: false,
            status: answer.status,
            type: error.type,
            message: error.message,
          },
    );
    expect(found.same, label).toBe(true);
    expect(found.gateway, label).toBe(`gateway-${asked.gateway + 1}`);
    const at = Date.parse(found.time ?? '');
    expect([at >= from, at <= to], `${found.time} of ${from} to ${to}: ${label}`).toEqual([true, true]);
    for (const step of found.steps) {
      this.results.add(`${step.step} ${step.result}`);
      if (step.result === 'skipped') expect(step.text, label).toMatch(/^not asked/);
      else if (step.step === 'answer' && answered === leftByClient) expect(step.text, label).toBe('it left');
      else {
        const text = step.text.replaceAll(/(?<=\d),(?=\d{3})/g, '');
        const says = oracle[step.step as StepName](known, { ...step, text }, answer as Answer, at);
        expect({ result: step.result, text }, `${step.step}: ${label}`).toEqual({
          ...{ result: says.ok ? 'ok' : 'refused', text: says.text },
        });
        checkEvent(step, found.at, label);
      }
    }
    if (answered === leftByClient) expect(found.decisive, label).toBe('answer');
    else checkLadder(known, found, error?.type, label);
  }

  /** Notes what the request left behind. */
  #count(known: Known, answer: Replied, found: Explanation): void {
    const { asked, subject } = known;
    const { gateway } = asked;
    if (!passedLimits(known, answer)) return;
    const at = Date.parse(found.time ?? '');
    for (const one of subjectsOf(known)) {
      this.counted.decided(one, gateway, at);
      // The other gateway may have read of it while it was in flight.
      this.counted.inFlight.of(one, gateway).pulse(weightOf(known, undefined) * (known.others + 1));
    }
    const tokens = tokensOf(known, answer);
    if (tokens === undefined) return;
    if (asked.visitor === undefined) this.counted.completed(subject, gateway, tokens, isPooled(known));
    else {
      this.counted.completed(visitorsSubject, gateway, tokens, true);
      for (const one of [subject, 'network']) this.counted.turns.of(one, gateway).add(1);
    }
  }
}

function notFound(error: unknown): undefined {
  if (error instanceof AdminError && error.status === 404) return undefined;
  throw error;
}

function errorOf({ content }: Replied): { readonly type: string; readonly message: string } {
  return (JSON.parse(content) as { error: { type: string; message: string } }).error;
}

/** Whose limits a request counts against. */
function subjectsOf(known: Known): string[] {
  const own = countedAs(known);
  return known.asked.visitor === undefined ? [own] : [own, visitorsSubject];
}

/** It counts against the limits: it was served, or refused by what comes after them. */
function passedLimits(known: Known, answer: Replied): boolean {
  const { asked } = known;
  if (isListing(asked)) return false;
  if (answer.status === 200) return true;
  const { type, message } = errorOf(answer);
  if (/^(?:InferenceUnavailable|DedicatedOnlyModel|TargetNotServing)Error$/.test(type)) return true;
  if (type === 'ModelNotInPlanError') return tierNameOf(known) !== null;
  if (type === 'ContextWindowExceededError') return !message.includes('needs a context of');
  return type === 'UnsupportedShapeError' && asked.defect === undefined;
}

/** Of a completed answer; undefined where there is none that is billed. */
function tokensOf({ asked }: Known, { status, content }: Replied): number | undefined {
  if (status !== 200 || isListing(asked) || asked.operation === 'count-tokens') return undefined;
  const last = (name: string): number =>
    Number([...content.matchAll(new RegExp(`"${name}": ?(\\d+)`, 'g'))].at(-1)?.[1] ?? 0);
  return asked.operation === 'messages' ? last('input_tokens') + last('output_tokens') : last('total_tokens');
}

/** What refused a step by an event of the log names that event. */
function checkEvent(
  { text, because, result }: Explanation['steps'][number],
  at: number,
  label: string,
): void {
  if (because !== undefined) expect(because.position, label).toBeLessThanOrEqual(at);
  const [, type] = events.find(([is]) => is.test(text)) ?? [];
  if (type !== undefined && result === 'refused') expect(because?.type, label).toBe(type);
}

/** Steps that a request of this kind does not have, although it came so far. */
function mayBeLeftOut(known: Known): ReadonlySet<string> {
  const { asked } = known;
  const isOpen = asked.visitor !== undefined || (isListing(asked) && asked.host === 'shared');
  return new Set([
    ...(isOpen ? ['fresh', 'key'] : []),
    ...(places[`organisation:${known.key?.organisation}`] === undefined ? ['own nodes'] : []),
    ...(asked.visitor === undefined ? [] : ['stack']),
    ...(isPooled(known) ? [] : ['allowance']),
    ...(isOwn(known) ? ['pool', 'tier', 'nodes'] : []),
  ]);
}

/** Up to the step that decided nothing is left out, and it is the one that the client got the refusal of. */
function checkLadder(
  known: Known,
  { steps, decisive }: Explanation,
  type: string | undefined,
  label: string,
): void {
  const gave = ['own nodes', 'nodes', 'listing'];
  const at =
    type === undefined
      ? steps.findIndex(({ step, result }) => gave.includes(step) && result === 'ok')
      : steps.findIndex(({ step, result }) => result === 'refused' && step !== 'own nodes');
  const last = steps[at];
  expect(last, label).toBeDefined();
  if (type !== undefined) expect(type, label).toMatch(refusals[last?.step as StepName]);
  const leftOut = mayBeLeftOut(known);
  const before = steps.slice(0, at).filter(({ step, result }) => result === 'skipped' && !leftOut.has(step));
  expect(before, label).toEqual([]);
  const isRoute = ['pool', 'tier', 'nodes'].includes(last?.step ?? '');
  expect([last?.step, ...(type !== undefined && isRoute ? ['own nodes'] : [])], label).toContain(decisive);
}

/** Requests of one moment were counted one after the other: each found one more than the one before it. */
function checkTurns(
  all: readonly { readonly known: Known; readonly answer: Answer; readonly found: Explanation }[],
): void {
  const byMinute = new Map<string, number[]>();
  for (const { known, answer, found } of all) {
    const text = found.steps.find(({ step }) => step === 'requests')?.text ?? '';
    const here = /^(\d+) here/.exec(text)?.[1];
    if (here === undefined || !passedLimits(known, answer)) continue;
    const minute = windowStartMs(known.subject, Date.parse(found.time ?? ''));
    const key = `${known.subject} ${known.asked.gateway} ${minute}`;
    byMinute.set(key, [...(byMinute.get(key) ?? []), Number(here)]);
  }
  for (const values of byMinute.values()) {
    const sorted = values.sort((a, b) => a - b);
    expect(sorted).toEqual(sorted.map((_, index) => (sorted[0] ?? 0) + index));
  }
}

export function turnOf(visitor: number): Asked {
  return {
    ...{ gateway: 0, who: 'missing', host: 'shared', operation: 'chat', model: 'echo-quick', maxTokens: 3 },
    ...{ promptBytes: 11, defect: undefined, visitor },
  };
}
