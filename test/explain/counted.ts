/** What the test counted itself: requests by minute, weights in flight and tokens, of each organisation at each gateway. */
import { windowStartMs } from '../../shared/decision/decide.ts';

/** What a number may be; the ends are included. */
export interface Range {
  readonly from: number;
  readonly to: number;
}
export const exactly = (value: number): Range => ({ from: value, to: value });
export const isWithin = (value: number, { from, to }: Range): boolean => value >= from && value <= to;

const other = (gateway: number): number => 1 - gateway;

/** A value that another gateway reads late: all that it was since both were last known to agree. */
class Late {
  now = 0;
  /** So much more it may be: nobody but the product knows. */
  slack = 0;
  #lowest = 0;
  #highest = 0;

  add(more: number): void {
    this.now += more;
    this.#lowest = Math.min(this.#lowest, this.now);
    this.#highest = Math.max(this.#highest, this.now);
  }

  /** It was so much more for a moment. */
  pulse(more: number): void {
    this.#highest = Math.max(this.#highest, this.now + more);
  }

  /** It is read by all. */
  agree(): void {
    this.#lowest = this.now;
    this.#highest = this.now;
  }

  get range(): Range {
    return { from: this.#lowest, to: this.#highest + this.slack };
  }
}

class Lates {
  readonly #values = new Map<string, Late>();

  of(subject: string, gateway: number): Late {
    const key = `${gateway} ${subject}`;
    const found = this.#values.get(key) ?? new Late();
    this.#values.set(key, found);
    return found;
  }

  sum(subject: string): number {
    return this.of(subject, 0).now + this.of(subject, 1).now;
  }

  agree(subject: string): void {
    for (const gateway of [0, 1]) this.of(subject, gateway).agree();
  }
}

export class Counted {
  /** When each request that counts was decided. */
  readonly #decided = new Map<string, number[]>();
  readonly inFlight = new Lates();
  /** Of the allowance of an organisation, or of all visitors. */
  readonly tokens = new Lates();
  /** Completed turns of a visitor or of the network. */
  readonly turns = new Lates();
  /** Of completed requests, whatever answered them. */
  readonly allTokens = new Map<string, number>();
  readonly requests = new Map<string, number>();

  decided(subject: string, gateway: number, atMs: number): void {
    const key = `${gateway} ${subject}`;
    this.#decided.set(key, [...(this.#decided.get(key) ?? []).slice(-2000), atMs]);
  }

  /** It was decided at another moment than was thought. */
  moved(subject: string, gateway: number, fromMs: number, toMs: number): void {
    const all = this.#decided.get(`${gateway} ${subject}`) ?? [];
    const at = all.indexOf(fromMs);
    if (at !== -1) all[at] = toMs;
  }

  /** Requests of the minute of a moment at one gateway, before that moment; of those in the same millisecond it is not known. */
  inMinute(subject: string, gateway: number, atMs: number): Range {
    const minute = windowStartMs(subject, atMs);
    const all = this.#decided.get(`${gateway} ${subject}`) ?? [];
    const own = all.filter((ms) => ms <= atMs && windowStartMs(subject, ms) === minute);
    return { from: own.filter((ms) => ms < atMs).length, to: own.length };
  }

  inMinuteOfAll(subject: string, atMs: number): number {
    return this.inMinute(subject, 0, atMs).to + this.inMinute(subject, 1, atMs).to;
  }

  completed(organisation: string, gateway: number, tokens: number, counts: boolean): void {
    this.allTokens.set(organisation, (this.allTokens.get(organisation) ?? 0) + tokens);
    this.requests.set(organisation, (this.requests.get(organisation) ?? 0) + 1);
    if (counts) this.tokens.of(organisation, gateway).add(tokens);
  }

  /** What a gateway knows of a sum over both: its own at once, the other's late. */
  known(values: Lates, subject: string, gateway: number): Range {
    const { now, slack } = values.of(subject, gateway);
    const { from, to } = values.of(subject, other(gateway)).range;
    return { from: now + from, to: now + slack + to };
  }

  /** What it knows of the other gateway alone. */
  elsewhere(subject: string, gateway: number): Range {
    return this.inFlight.of(subject, other(gateway)).range;
  }
}
