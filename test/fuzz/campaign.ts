/**
 * Runs cases of one target for a bounded time, saves each input that finds a fault, and sums up. A fault of the same
 * words, its numbers aside, is reported once.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { Draw } from './draw.ts';

/** Takes the input of a case before it is tried, so that it is known even where the case never ends. */
export type Note = (input: string | Uint8Array) => void;

export interface RunningTarget {
  /** Cases at once. */
  readonly workers: number;
  /** Tries one case and gives its faults. */
  tryCase(draw: Draw, note: Note): Promise<readonly string[]>;
  /** Faults that belong to no case: a process that ended, a secret in a log. */
  faults(): readonly string[];
  /** Called once after the first cases: what is held now is the level to come back to. */
  warmedUp(): Promise<void>;
  /** Called once after the last case; then `faults` are final. */
  settle(): Promise<void>;
  /** What the summary adds. */
  figures?(): Readonly<Record<string, number>>;
  close(): Promise<void>;
}

export interface Target {
  readonly name: string;
  start(seed: number): Promise<RunningTarget>;
}

export interface CampaignOptions {
  readonly seed: number;
  readonly seconds: number;
  readonly saveTo: string;
  /** Only this one. */
  readonly onlyCase?: number | undefined;
  readonly say: (line: string) => void;
}

export interface Finding {
  readonly fault: string;
  /** How often it was found. */
  count: number;
  /** Files of the inputs that were tried when it was found. */
  readonly inputs: readonly string[];
}

export interface Summary {
  readonly target: string;
  readonly seed: number;
  readonly cases: number;
  readonly seconds: number;
  readonly findings: readonly Finding[];
  readonly figures: Readonly<Record<string, number>>;
}

interface Case {
  readonly number: number;
  input: string | Uint8Array;
}

const caseMsMax = 60_000;
const findingsMax = 20;
/** Ended cases that may still be the cause of what is seen now. */
const recentCases = 24;
const shownLength = 400;
const shownCasesMax = 3;

export async function campaign(target: Target, options: CampaignOptions): Promise<Summary> {
  const run = new Campaign(target.name, options);
  const running = await target.start(options.seed);
  try {
    return await run.run(running);
  } finally {
    await running.close();
  }
}

class Campaign {
  readonly #name: string;
  readonly #options: CampaignOptions;
  readonly #findings = new Map<string, Finding>();
  readonly #current = new Set<Case>();
  #recent: Case[] = [];
  #started = 0;
  #stopped = false;

  constructor(name: string, options: CampaignOptions) {
    this.#name = name;
    this.#options = options;
  }

  async run(running: RunningTarget): Promise<Summary> {
    const { seconds, onlyCase, seed } = this.#options;
    const startMs = performance.now();
    const untilMs = startMs + seconds * 1000;
    if (onlyCase !== undefined) {
      this.#started = 1;
      await this.#try(running, onlyCase);
    } else {
      await this.#work(running, Math.min(untilMs, startMs + Math.max(1000, seconds * 100)));
      await running.warmedUp();
      await this.#work(running, untilMs);
    }
    const elapsedMs = performance.now() - startMs;
    await running.settle();
    this.#collect(running);
    return {
      target: this.#name,
      seed,
      cases: this.#started,
      seconds: Math.round(elapsedMs / 100) / 10,
      findings: [...this.#findings.values()],
      figures: running.figures?.() ?? {},
    };
  }

  async #work(running: RunningTarget, untilMs: number): Promise<void> {
    const worker = async (): Promise<void> => {
      while (!this.#stopped && performance.now() < untilMs) await this.#try(running, this.#started++);
    };
    await Promise.all(Array.from({ length: running.workers }, worker));
  }

  async #try(running: RunningTarget, number: number): Promise<void> {
    const one: Case = { number, input: '' };
    this.#current.add(one);
    const draw = new Draw(this.#options.seed, number);
    const timer = new AbortController();
    const late = pause(caseMsMax, [`a case did not end within ${caseMsMax} ms`], { signal: timer.signal });
    late.catch(() => undefined);
    const tried = running.tryCase(draw, (input) => {
      one.input = input;
    });
    const faults = await Promise.race([tried, late]).catch((error: Error) => [
      `the case threw: ${error.stack}`,
    ]);
    timer.abort();
    this.#current.delete(one);
    this.#recent = [one, ...this.#recent].slice(0, recentCases);
    for (const fault of faults) this.#find(fault, [one]);
    this.#collect(running);
  }

  #collect(running: RunningTarget): void {
    const faults = running.faults();
    for (const fault of faults) this.#find(fault, [...this.#current, ...this.#recent], true);
    if (faults.some((fault) => / ended \(/.test(fault))) this.#stopped = true;
  }

  #find(fault: string, cases: readonly Case[], isLasting = false): void {
    const kind = fault.replaceAll(/[0-9a-f]{16,}|\d+/g, '#').slice(0, 120);
    const known = this.#findings.get(kind);
    if (known) {
      if (!isLasting) known.count++;
      return;
    }
    if (this.#findings.size >= findingsMax) {
      this.#stopped = true;
      return;
    }
    const inputs = cases.map((one) => this.#save(one));
    this.#findings.set(kind, { fault, count: 1, inputs });
    const { say, seed } = this.#options;
    const shownCases = cases.slice(0, shownCasesMax);
    const more = cases.length > shownCasesMax ? ' or one before' : '';
    const numbers = shownCases.map(({ number }) => number).join(' or ');
    say(`FOUND ${this.#name} (SEED=${seed}, case ${numbers}${more}): ${fault.slice(0, 2 * shownLength)}`);
    for (const [index, one] of shownCases.entries()) say(`      ${inputs[index]}: ${shown(one.input)}`);
  }

  /** Text as it is, bytes in hex. */
  #save({ number, input }: Case): string {
    const { saveTo, seed } = this.#options;
    mkdirSync(saveTo, { recursive: true });
    const path = join(
      saveTo,
      `${this.#name}-${seed}-${number}.${typeof input === 'string' ? 'json' : 'hex'}`,
    );
    writeFileSync(path, typeof input === 'string' ? input : Buffer.from(input).toString('hex'));
    return path;
  }
}

function shown(input: string | Uint8Array): string {
  const text = typeof input === 'string' ? input : JSON.stringify(Buffer.from(input).toString('latin1'));
  return text.length <= shownLength ? text : `${text.slice(0, shownLength)}… (${text.length} characters)`;
}
