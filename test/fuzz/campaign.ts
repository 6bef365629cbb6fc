/**
 * Runs cases of one target with fast-check for a limited time. Each kind of fault is shrunk and reported once, with the seed
 * and case number that repeat it. Two faults are of the same kind if their texts differ only in numbers.
 */
import fc from 'fast-check';
import { Draw } from './draw.ts';

/** Records the input of a case before it is tried. */
export type Note = (input: string | Uint8Array) => void;

export interface RunningTarget {
  /** Number of cases that the target runs at the same time. */
  readonly workers: number;
  tryCase(draw: Draw, note: Note): Promise<readonly string[]>;
  /** Faults that belong to no single case, such as a process that ended or a secret in a log. */
  faults(): readonly string[];
  /** Called once after the first cases, to record the memory and resources in use. The target must return to this level. */
  warmedUp(): Promise<void>;
  /** Called once after the last case. No further `faults` may appear afterwards. */
  settle(): Promise<void>;
  figures?(): Readonly<Record<string, number>>;
  close(): Promise<void>;
}

export interface Target {
  readonly name: string;
  start(): Promise<RunningTarget>;
}

export interface CampaignOptions {
  readonly seed: number;
  readonly seconds: number;
  /** Number of the only case to run. Its input is printed. */
  readonly onlyCase?: number | undefined;
  readonly say: (line: string) => void;
}

export interface Summary {
  readonly cases: number;
  readonly seconds: number;
  readonly faults: readonly string[];
  readonly figures: Readonly<Record<string, number>>;
}

const caseMsMax = 60_000;
const shrinkMsMax = 20_000;
/** Number of recent cases that may have caused a fault that is noticed now. */
const recentCases = 24;
const faultsMax = 20;
const shownLength = 4000;

// All cases share it, because it caches the arbitraries from which they draw.
const choices = fc.gen();

export async function campaign(target: Target, options: CampaignOptions): Promise<Summary> {
  const running = await target.start();
  try {
    return await new Campaign(target.name, running, options).run();
  } finally {
    await running.close();
  }
}

class Campaign {
  readonly #name: string;
  readonly #running: RunningTarget;
  readonly #options: CampaignOptions;
  readonly #faults = new Map<string, string>();
  #recent: number[] = [];
  #started = 0;
  #stopped = false;

  constructor(name: string, running: RunningTarget, options: CampaignOptions) {
    this.#name = name;
    this.#running = running;
    this.#options = options;
  }

  async run(): Promise<Summary> {
    const { seconds, onlyCase } = this.#options;
    const startMs = performance.now();
    if (onlyCase !== undefined) await this.#try(onlyCase);
    else {
      await this.#work(startMs + Math.max(1000, seconds * 100));
      await this.#running.warmedUp();
      await this.#work(startMs + seconds * 1000);
    }
    const elapsedMs = performance.now() - startMs;
    await this.#running.settle();
    this.#collect();
    return {
      cases: onlyCase === undefined ? this.#started : 1,
      seconds: Math.round(elapsedMs / 100) / 10,
      faults: [...this.#faults.values()],
      figures: this.#running.figures?.() ?? {},
    };
  }

  async #work(untilMs: number): Promise<void> {
    const worker = async (): Promise<void> => {
      while (!this.#stopped && performance.now() < untilMs) await this.#try(this.#started++);
    };
    await Promise.all(Array.from({ length: this.#running.workers }, worker));
  }

  async #try(number: number): Promise<void> {
    const { seed, onlyCase, say } = this.#options;
    this.#recent = [number, ...this.#recent].slice(0, this.#running.workers + recentCases);
    let kind: string | undefined;
    let input: string | Uint8Array = '';
    const property = fc.asyncProperty(choices, async (draw) => {
      let noted: string | Uint8Array = '';
      const note = (value: string | Uint8Array): void => {
        noted = value;
      };
      const faults = await this.#running
        .tryCase(new Draw(draw), note)
        .catch((error: Error) => [`the case threw: ${error.stack}`]);
      const found = faults.find((fault) =>
        kind === undefined ? !this.#faults.has(kindOf(fault)) : kindOf(fault) === kind,
      );
      if (onlyCase !== undefined && kind === undefined) say(`INPUT ${shown(noted)}`);
      if (found === undefined) return;
      kind = kindOf(found);
      this.#faults.set(kind, found);
      input = noted;
      throw new Error(found);
    });
    const { failed, errorInstance } = await fc.check(property, {
      ...{ seed: Math.imul(seed, 0x9e3779b1) ^ Math.imul(number + 1, 0x85ebca6b), numRuns: 1 },
      ...{ timeout: caseMsMax, interruptAfterTimeLimit: caseMsMax + shrinkMsMax },
    });
    if (failed && errorInstance instanceof Error) {
      this.#report(errorInstance.message, [number]);
      say(`      ${shown(input)}`);
    }
    this.#collect();
  }

  #collect(): void {
    for (const fault of this.#running.faults()) {
      if (/ ended \(/.test(fault)) this.#stopped = true;
      if (!this.#faults.has(kindOf(fault))) this.#report(fault, this.#recent);
    }
  }

  #report(fault: string, cases: readonly number[]): void {
    this.#faults.set(kindOf(fault), fault);
    if (this.#faults.size >= faultsMax) this.#stopped = true;
    const { say, seed } = this.#options;
    const numbers = cases.length > 1 ? `one of the cases ${cases.join(', ')}` : `case ${cases[0]}`;
    say(`FOUND ${this.#name} (SEED=${seed}, ${numbers}): ${fault.slice(0, 800)}`);
  }
}

function kindOf(fault: string): string {
  return fault.replaceAll(/[0-9a-f]{16,}|\d+/g, '#').slice(0, 120);
}

function shown(input: string | Uint8Array): string {
  const text = typeof input === 'string' ? input : JSON.stringify(Buffer.from(input).toString('latin1'));
  return text.length <= shownLength ? text : `${text.slice(0, shownLength)}… (${text.length} characters)`;
}
