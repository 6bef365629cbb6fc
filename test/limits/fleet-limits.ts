/**
 * Checks fleet-wide limits with real gateways. Clients and a simulated node count the admitted requests, and the count must
 * stay within the bound of docs/limits.md. The tests for Kafka and for the embedded log both use this file.
 */
import { mkdirSync, readdirSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { expect } from 'vitest';
import type { Fleet } from '../../schemas/events/fleet.ts';
import { windowMs, windowStartMs } from '../../shared/decision/decide.ts';
import type { DevAdmin } from '../../tools/dev/dev-admin.ts';
import type { SimStats } from '../simulator/ledger.ts';
import {
  accepts,
  completion,
  type GatewayProcess,
  metric,
  model,
  ProcessFleet,
} from '../support/process-fleet.ts';
import { until } from '../support/until.ts';

const minuteLimit = 30;
const slots = 6;
const minutes = 24;
/** Organisations of the Slots tier, which limits requests in flight. Only one of them uses its slots at a time. */
const slotted = ['slots-0', 'slots-1'];
/**
 * Age of a gateway's limit feed, in seconds, from which the gateway may count itself as cut off and admit only its own share.
 */
const cutOffSeconds = 1;
/** Time after the final record of an ended process in which the process may still have used its share, in ms. */
const idEndsMs = 1000;

interface Answers {
  admitted: number;
  limited: number;
  /** HTTP statuses other than 200 and 429. */
  readonly other: number[];
  /** Value of `Retry-After` in each refusal, in seconds. */
  readonly retryAfter: number[];
}

export class LimitedFleet extends ProcessFleet {
  readonly gateways: GatewayProcess[] = [];
  #standing: { admin: DevAdmin; keys: Readonly<Record<string, string>>; node: string } | undefined;
  /** Organisations of the Minute tier that no test case has used yet. */
  readonly #unused = new Set(Array.from({ length: minutes }, (_, index) => `minute-${index}`));
  #disturbedMs = 0;

  async begin(gateways: number): Promise<void> {
    const document = (url: string): Fleet => ({
      version: 1,
      models: [
        { id: model, family: 'echo', weight: 1 },
        { id: 'heavy', family: 'echo', weight: 3 },
      ],
      tiers: [
        { id: 'Minute', models: '*', requestsPerMinute: minuteLimit },
        { id: 'Slots', models: '*', concurrency: slots },
      ],
      pool: {
        models: [model, 'heavy'],
        nodes: [{ id: 'pool-1', url, dialect: 'vllm' }],
      },
      organisations: [...this.#unused, ...slotted].map((id) => ({
        ...{ id, name: id },
        tier: slotted.includes(id) ? 'Slots' : 'Minute',
      })),
    });
    const nodes = [['--models', `${model},heavy`, '--tokens-per-second', '20']];
    const { admin, keys, node } = await this.stand({ document, nodes, gateways: 0 });
    this.#standing = { admin, keys, node: node.ready.url };
    await this.growTo(gateways);
  }

  /** Starts gateways until the given number are running, and waits until all of them have folded the keys. */
  async growTo(gateways: number): Promise<void> {
    await this.grow(this.gateways, gateways);
    await Promise.all(this.gateways.map((each) => until(() => this.knows(each, slotted.at(-1) ?? ''))));
  }

  /** Notes that gateways have just died or changed ids. In a minute that has already begun, their shares stay unused. */
  disturbed(): void {
    this.#disturbedMs = Date.now() + idEndsMs;
  }

  /**
   * Returns an unused organisation whose current minute lasts for at least `ms` more. Prefers the minute with the most time
   * left, so that tests rarely wait. If `undisturbed`, the minute must also have begun after gateways last died or changed
   * ids.
   */
  async freshMinute(ms: number, { undisturbed = true } = {}): Promise<string> {
    const start = (id: string) => windowStartMs(id, Date.now());
    const isFresh = (id: string) =>
      start(id) + windowMs - Date.now() > ms && (!undisturbed || start(id) > this.#disturbedMs);
    if (this.#unused.size === 0) throw new Error('every minute is used');
    let id: string | undefined;
    await until(() => {
      id = [...this.#unused].filter(isFresh).sort((a, b) => start(b) - start(a))[0];
      return id !== undefined;
    }, 90_000);
    this.#unused.delete(id ?? '');
    return id ?? '';
  }

  /** Returns the organisation's limits as `headgate limits show` reports them. */
  async limits(organisation: string) {
    return this.#begun.admin.call('GET', `/organisations/${organisation}/limits`);
  }

  /** Returns the organisation's usage in the current period, and the time at which its key was last used. */
  async used(organisation: string) {
    const { admin } = this.#begun;
    const { requests, period, periods } = await admin.call('GET', `/usage?organisation=${organisation}`);
    const { items } = await admin.call('GET', `/usage/keys?organisation=${organisation}`);
    return { requests, period, periods, lastMs: Date.parse(items[0]?.lastUsedAt ?? '') };
  }

  gateway(
    name: string,
    flags: readonly string[] = [],
    env: Readonly<Record<string, string>> = {},
  ): Promise<GatewayProcess> {
    return this.startGateway(name, { flags, env });
  }

  async allowVisitors(): Promise<void> {
    await this.#begun.admin.call('PUT', '/anonymous', { freeTurns: 10, models: [model] });
  }

  knows(gateway: GatewayProcess, organisation: string): Promise<boolean> {
    return accepts(gateway, this.#begun.keys[organisation] ?? '');
  }

  ask(
    { ready }: GatewayProcess,
    organisation: string,
    { tokens = 1, stream = false, to = model, signal }: AskOptions = {},
  ): Promise<Response> {
    // The node generates exactly this many words, whatever other parameters a request sets.
    const messages = [{ role: 'user', content: `say ${tokens} words` }];
    const body = { model: to, stream, max_tokens: tokens, messages };
    return completion(ready.api, this.#begun.keys[organisation] ?? '', body, signal && { signal });
  }

  /** Sends `count` requests at once, spread over the given gateways, and counts the responses. */
  async burst(gateways: readonly GatewayProcess[], organisation: string, count: number): Promise<Answers> {
    const answers: Answers = { admitted: 0, limited: 0, other: [], retryAfter: [] };
    const one = async (gateway: GatewayProcess): Promise<void> => {
      const response = await this.ask(gateway, organisation);
      await response.text();
      if (response.status === 200) answers.admitted++;
      else if (response.status === 429) {
        answers.limited++;
        answers.retryAfter.push(Number(response.headers.get('retry-after')));
      } else answers.other.push(response.status);
    };
    await Promise.all(
      Array.from({ length: count }, (_, index) => one(gateways[index % gateways.length] as GatewayProcess)),
    );
    return answers;
  }

  /** Returns the number of completions that the node has received, and the number in progress. */
  async seen(): Promise<{ readonly requests: number; readonly inFlight: number }> {
    const stats = (await (await fetch(`${this.#begun.node}/sim/stats`)).json()) as SimStats;
    return { requests: stats.requestsByPath['/v1/chat/completions'] ?? 0, inFlight: stats.inFlight };
  }

  get #begun() {
    if (this.#standing === undefined) throw new Error('the fleet has not begun');
    return this.#standing;
  }

  /** Makes the log's gauges topic unreachable by moving its files away, or moves them back. */
  moveGauges(isAway: boolean): void {
    const [from, to] = [this.logFolder, join(this.dir, 'away')];
    mkdirSync(to, { recursive: true });
    const [source, target] = isAway ? [from, to] : [to, from];
    for (const file of readdirSync(source))
      if (file.startsWith('headgate.gauges')) renameSync(join(source, file), join(target, file));
  }

  /**
   * Runs the work. Returns how many requests the bound allows beyond the limit meanwhile, which is more if a busy machine cut
   * a gateway off.
   */
  async exempt(limit: number, work: () => Promise<void>): Promise<number> {
    let ageMax = 0;
    let isRunning = true;
    const watched = (async () => {
      while (isRunning) {
        const ages = this.gateways.map((each) => metric(each, 'headgate_limit_feed_age_seconds'));
        ageMax = Math.max(ageMax, ...(await Promise.all(ages)));
        await pause(50);
      }
    })();
    await work().finally(() => {
      isRunning = false;
    });
    await watched;
    return this.gateways.length + (ageMax > cutOffSeconds ? limit : 0);
  }
}

interface AskOptions {
  readonly tokens?: number;
  readonly stream?: boolean;
  readonly to?: string;
  readonly signal?: AbortSignal;
}

/** Waits until `limits show` reports the given usage, both in total and as the sum over the gateways. */
async function shows(
  fleet: LimitedFleet,
  organisation: string,
  {
    requests = null,
    inFlight = null,
  }: { readonly requests?: number | null; readonly inFlight?: number | null },
): Promise<void> {
  await until(async () => {
    const shown = await fleet.limits(organisation);
    const sum = (of: (gateway: (typeof shown.gateways)[number]) => number | null) =>
      shown.gateways.reduce((total, gateway) => total + (of(gateway) ?? 0), 0);
    return (
      shown.requests.used === requests &&
      shown.concurrency.inFlight === inFlight &&
      sum((gateway) => gateway.requests) === (requests ?? 0) &&
      sum((gateway) => gateway.inFlight) === (inFlight ?? 0)
    );
  });
}

/**
 * Tests Limits 1 over all gateways with a burst in a fresh minute, then with three times the limit. If not `undisturbed`,
 * gateways died or changed ids in the minute, so their standing shares, at most half of the limit, stay unused.
 */
async function coldBurst(fleet: LimitedFleet, { undisturbed = true } = {}): Promise<void> {
  const unused = undisturbed ? 0 : minuteLimit / 2;
  const organisation = await fleet.freshMinute(12_000, { undisturbed });
  const before = (await fleet.seen()).requests;
  const all: Answers[] = [];
  const exempt = await fleet.exempt(minuteLimit, async () => {
    for (const size of [minuteLimit, 2 * minuteLimit])
      all.push(await fleet.burst(fleet.gateways, organisation, size));
  });
  expect(all.flatMap(({ other }) => other)).toEqual([]);
  const admitted = all.reduce((sum, answers) => sum + answers.admitted, 0);
  // The documented bound is one request per gateway beyond the limit.
  expect(admitted).toBeLessThanOrEqual(minuteLimit + exempt);
  expect(admitted).toBeGreaterThanOrEqual(minuteLimit - unused);
  expect((await fleet.seen()).requests - before).toBe(admitted);
  await shows(fleet, organisation, { requests: admitted });
  for (const seconds of all.flatMap(({ retryAfter }) => retryAfter)) {
    expect(seconds).toBeGreaterThanOrEqual(1);
    expect(seconds).toBeLessThanOrEqual(60);
  }
}

/**
 * Tests Limits 1 over all gateways with three times the limit, spread evenly over some seconds of one minute. Returns the
 * number of requests refused before the limit was reached.
 */
async function sustained(fleet: LimitedFleet): Promise<number> {
  const organisation = await fleet.freshMinute(20_000);
  const before = (await fleet.seen()).requests;
  const total = { admitted: 0, early: 0 };
  const others: number[] = [];
  const one = async (index: number): Promise<void> => {
    await pause(index * 40);
    const gateway = fleet.gateways[index % fleet.gateways.length] as GatewayProcess;
    const { admitted, limited, other } = await fleet.burst([gateway], organisation, 1);
    total.admitted += admitted;
    if (total.admitted < minuteLimit) total.early += limited;
    others.push(...other);
  };
  const exempt = await fleet.exempt(minuteLimit, async () => {
    await Promise.all(Array.from({ length: 3 * minuteLimit }, (_, index) => one(index)));
  });
  expect(others).toEqual([]);
  expect(total.admitted).toBeLessThanOrEqual(minuteLimit + exempt);
  expect(total.admitted).toBeGreaterThanOrEqual(minuteLimit);
  expect((await fleet.seen()).requests - before).toBe(total.admitted);
  return total.early;
}

interface LogSwitch {
  readonly leave: () => void;
  readonly come: () => void;
}

/**
 * Checks that each gateway admits its own share while the log is unreachable, and that the fleet-wide limit holds again
 * afterwards.
 */
async function withoutLog(fleet: LimitedFleet, log: LogSwitch): Promise<void> {
  const share = minuteLimit / fleet.gateways.length;
  const ages = () =>
    Promise.all(fleet.gateways.map((each) => metric(each, 'headgate_limit_feed_age_seconds')));
  log.leave();
  try {
    await until(async () => (await ages()).every((age) => age > 2.1));
    const away = await fleet.freshMinute(12_000, { undisturbed: false });
    for (const gateway of fleet.gateways) {
      const { admitted, other } = await fleet.burst([gateway], away, minuteLimit);
      expect(other).toEqual([]);
      // A new minute may begin during the burst. The gateway's whole share is then available again.
      expect(admitted % Math.floor(share)).toBe(0);
      expect(admitted).toBeLessThanOrEqual(2 * share);
      expect(admitted).toBeGreaterThan(0);
    }
  } finally {
    log.come();
  }
  await until(async () => (await ages()).every((age) => age < 1), 60_000);
  fleet.disturbed();
  await coldBurst(fleet, { undisturbed: false });
}

/** Checks that a client that stays on one gateway gets the whole limit, and that no gateway admits more than the limit. */
async function stickyClient(fleet: LimitedFleet): Promise<void> {
  const organisation = await fleet.freshMinute(20_000);
  const [one] = fleet.gateways;
  if (one === undefined) throw new Error('no gateway');
  let admitted = 0;
  const others: Answers[] = [];
  const exempt = await fleet.exempt(minuteLimit, async () => {
    // On a busy machine a gateway's claim on a share may be granted only after the request has stopped waiting, so retry.
    await until(async () => {
      const answers = await fleet.burst([one], organisation, minuteLimit);
      expect(answers.other).toEqual([]);
      admitted += answers.admitted;
      return admitted >= minuteLimit;
    });
    others.push(await fleet.burst(fleet.gateways, organisation, minuteLimit));
  });
  expect(admitted).toBe(minuteLimit);
  // Each gateway may admit one request before it learns of the last requests that the other gateways admitted.
  for (const answers of others) expect(answers.admitted).toBeLessThanOrEqual(exempt - 1);
}

/** Streams of one organisation that are spread over all gateways in turn and stay open until the client abandons them. */
class OpenStreams {
  readonly #fleet: LimitedFleet;
  readonly #organisation: string;
  readonly #leave = new AbortController();
  /** Keeps the responses alive, because a garbage-collected response ends its stream. */
  readonly #responses: Response[] = [];

  constructor(fleet: LimitedFleet, organisation: string) {
    this.#fleet = fleet;
    this.#organisation = organisation;
  }

  get open(): number {
    return this.#responses.length;
  }

  /** Opens one more stream and returns its HTTP status. */
  async begin(index: number, to = model): Promise<number> {
    const { gateways } = this.#fleet;
    const gateway = gateways[index % gateways.length] as GatewayProcess;
    const options = { tokens: 4000, stream: true, to, signal: this.#leave.signal };
    const response = await this.#fleet.ask(gateway, this.#organisation, options);
    if (response.status === 200) this.#responses.push(response);
    else await response.text();
    return response.status;
  }

  async leave(): Promise<void> {
    this.#leave.abort();
    await until(async () => (await this.#fleet.seen()).inFlight === 0);
  }
}

/** Runs the work, then abandons the streams that it opened, even if it fails. */
async function withStreams(
  fleet: LimitedFleet,
  organisation: string,
  work: (streams: OpenStreams) => Promise<void>,
): Promise<void> {
  const streams = new OpenStreams(fleet, organisation);
  await work(streams).finally(() => streams.leave());
}

/**
 * Opens streams until `count` are open. Retries, because on a busy machine a claim may be granted only after a request has
 * stopped waiting.
 */
async function untilOpen(streams: OpenStreams, count: number, begin: () => Promise<unknown>): Promise<void> {
  await until(async () => {
    if (streams.open < count) await begin();
    return streams.open >= count;
  });
}

/**
 * Tests Limits 2 over all gateways: slow streams keep their slots, models' weights count, and ended streams free their slots.
 */
async function slowStreams(fleet: LimitedFleet, organisation: string): Promise<void> {
  await withStreams(fleet, organisation, async (light) => {
    const statuses = new Set<number>();
    let index = 0;
    const begin = async (): Promise<void> => {
      statuses.add(await light.begin(index++));
    };
    const exempt = await fleet.exempt(slots, async () => {
      await untilOpen(light, slots, begin);
      for (let more = 0; more < 2 * slots; more++) await begin();
    });
    expect(statuses).toEqual(new Set([200, 429]));
    // The documented bound is one stream per gateway beyond the limit.
    expect(light.open).toBeLessThanOrEqual(slots + exempt);
    expect((await fleet.seen()).inFlight).toBe(light.open);
    await shows(fleet, organisation, { inFlight: light.open });
    expect(await light.begin(0, 'heavy'), 'a heavy request finds no room').toBe(429);
  });
  await withStreams(fleet, organisation, async (heavy) => {
    let index = 0;
    await untilOpen(heavy, slots / 3, () => heavy.begin(index++, 'heavy'));
    expect(await heavy.begin(0, 'heavy')).toBe(429);
    expect(await heavy.begin(1, 'heavy')).toBe(429);
  });
}

/**
 * Checks that a killed gateway's slots become free once the gateway is back or has been silent for ten seconds, and that the
 * limits then hold again.
 */
async function killedAndBack(fleet: LimitedFleet, organisation: string): Promise<void> {
  const [first] = fleet.gateways;
  if (first === undefined) throw new Error('no gateway');
  await withStreams(fleet, organisation, async (streams) => {
    await untilOpen(streams, slots, () => streams.begin(0));
    await first.end('SIGKILL');
    await until(async () => (await fleet.seen()).inFlight === 0);
    fleet.gateways[0] = await fleet.gateway('gateway-1');
    await until(async () => (await streams.begin(1)) === 200);
  });
  fleet.disturbed();
  await coldBurst(fleet, { undisturbed: false });
}

/** Runs all test cases of fleet-wide limits in turn on the running gateways. */
export async function everyCase(fleet: LimitedFleet, log: LogSwitch): Promise<void> {
  await coldBurst(fleet);
  await stickyClient(fleet);
  const early = await sustained(fleet);
  console.log(
    JSON.stringify({ gateways: fleet.gateways.length, sent: 3 * minuteLimit, refusedBeforeTheLimit: early }),
  );
  await slowStreams(fleet, 'slots-0');
  await killedAndBack(fleet, 'slots-1');
  await withoutLog(fleet, log);
}
