/**
 * Watches all processes of a fleet with mixed versions for digests that differ: in the control planes' reports about
 * gateways, and between processes whose position and fold version are equal.
 */
import { askAdmin } from '../support/ask-admin.ts';
import type { Launch } from '../support/processes.ts';

type Process = Launch<{ readonly admin: string; readonly metrics: string }>;

interface Row {
  readonly name: string;
  readonly state: string;
  readonly applied: number;
  readonly digest: string;
  readonly foldVersion: number;
}

interface Status {
  readonly position: number;
  readonly digest: string;
  readonly digests: Record<string, string>;
  readonly foldVersion?: number;
}

const everyMs = 250;
/** Pattern of a process's metrics that must be 0 or absent. */
const alarms = /^(headgate_(?:fold_diverged|fold_quarantined|fold_halted)\w*(?:\{[^}]*\})?) ([1-9]\S*)$/gm;

export class Digests {
  readonly #token: string;
  readonly #planes: () => readonly Process[];
  readonly #gateways: () => readonly Process[];
  #polls = 0;
  #compared = 0;
  #found: string[] = [];
  #isStopped = false;
  #running: Promise<void> | undefined;

  constructor(token: string, planes: () => readonly Process[], gateways: () => readonly Process[]) {
    this.#token = token;
    this.#planes = planes;
    this.#gateways = gateways;
  }

  start(): void {
    this.#running = this.#poll();
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.#running;
  }

  /** Returns everything observed since the last call. */
  take(): { readonly polls: number; readonly compared: number; readonly found: readonly string[] } {
    const taken = { polls: this.#polls, compared: this.#compared, found: this.#found };
    this.#polls = 0;
    this.#compared = 0;
    this.#found = [];
    return taken;
  }

  /** Resolves once two digests have been compared. */
  async compare(): Promise<void> {
    for (let looks = 0; looks < 200 && this.#compared === 0; looks++) await pauseMs(everyMs);
  }

  async #poll(): Promise<void> {
    while (!this.#isStopped) {
      // A process may end while it is being asked.
      await this.#look().catch(() => undefined);
      await pauseMs(everyMs);
    }
  }

  async #look(): Promise<void> {
    const statuses: Status[] = [];
    for (const { ready } of this.#planes()) {
      const status = await this.#get<Status>(ready.admin, '/status');
      const { items } = await this.#get<{ items: Row[] }>(ready.admin, '/gateways');
      for (const row of items) this.#judge(row, status);
      statuses.push(status);
    }
    const [one, other] = statuses;
    if (one !== undefined && other !== undefined && areComparable(one, other))
      this.#equal(one.digest, other.digest, 'planes');
    for (const { ready } of [...this.#planes(), ...this.#gateways()]) {
      const text = await (await fetch(`${ready.metrics}/metrics`)).text();
      for (const [, series = '', value] of text.matchAll(alarms)) this.#found.push(`${series} ${value}`);
    }
    this.#polls++;
  }

  #judge(row: Row, status: Status): void {
    if (row.state === 'DIVERGED') this.#found.push(`${row.name} is DIVERGED`);
    if (row.applied === status.position && row.foldVersion === status.foldVersion)
      this.#equal(row.digest, status.digest, row.name);
  }

  #equal(one: string, other: string, what: string): void {
    this.#compared++;
    if (one !== other) this.#found.push(`${what}: ${one} is not ${other}`);
  }

  async #get<Answer>(admin: string, path: string): Promise<Answer> {
    return (await (await askAdmin(admin, path, { token: this.#token })).json()) as Answer;
  }
}

function areComparable(one: Status, other: Status): boolean {
  return one.position === other.position && one.foldVersion === other.foldVersion;
}

function pauseMs(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
