/**
 * Checks that cold bursts far below every limit are served at once: no request may be refused or wait for a share, however
 * slow the log or the processors are. The tests for Kafka and for the embedded log both use this file.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { availableParallelism } from 'node:os';
import { expect } from 'vitest';
import type { Fleet } from '../../schemas/events/fleet.ts';
import { runs } from '../support/budget.ts';
import {
  accepts,
  type GatewayProcess,
  ProcessFleet,
  smallFleet,
  statusWith,
} from '../support/process-fleet.ts';
import { until } from '../support/until.ts';

/** Number of bursts per case. Each comes from an organisation that no other case uses. */
const burstsOfCase = 2;
const inBurst = 100;
const organisations = Array.from({ length: 32 }, (_, index) => `wide-${index}`);
const smallBytes = 10;
const largeBytes = 100_000;

export class WideFleet extends ProcessFleet {
  readonly gateways: GatewayProcess[] = [];
  #keys: Readonly<Record<string, string>> = {};
  readonly #unused = [...organisations];

  async begin(): Promise<void> {
    const document = (url: string): Fleet => ({
      ...smallFleet(url),
      tiers: [{ id: 'Wide', models: '*', requestsPerMinute: 1_000_000, concurrency: 100_000 }],
      organisations: organisations.map((id) => ({ id, name: id, tier: 'Wide' })),
    });
    this.#keys = (await this.stand({ document, gateways: 0 })).keys;
  }

  async growTo(count: number): Promise<void> {
    await this.grow(this.gateways, count);
    const last = this.#keys[organisations.at(-1) ?? ''] ?? '';
    for (const gateway of this.gateways) await until(() => accepts(gateway, last));
  }

  /** Sends a cold burst of one organisation, spread over the given gateways, and counts the responses by HTTP status. */
  async burst(gateways: readonly GatewayProcess[], bytes: number): Promise<ReadonlyMap<number, number>> {
    const organisation = this.#unused.shift() ?? '';
    const key = this.#keys[organisation] ?? '';
    const statuses = new Map<number, number>();
    const one = async ({ ready }: GatewayProcess): Promise<void> => {
      const messages = [{ role: 'user', content: 'x '.repeat(bytes / 2) }];
      const status = await statusWith(ready.api, key, { max_tokens: 1, messages });
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
    };
    await Promise.all(
      Array.from({ length: inBurst }, (_, index) => one(gateways[index % gateways.length] as GatewayProcess)),
    );
    return statuses;
  }
}

/** Keeps all processors busy by running more processes than there are processors. */
function busy(): { stop(): void } {
  const burners: ChildProcess[] = Array.from({ length: availableParallelism() + 1 }, () =>
    spawn(process.execPath, ['-e', 'for (;;);'], { stdio: 'ignore' }),
  );
  return {
    stop: () => {
      for (const burner of burners) burner.kill('SIGKILL');
    },
  };
}

/** Starts a disturbance and returns a handle that stops it. */
type Disturbance = () => { stop(): unknown };

/** Checks that no request is refused in bursts of small and of large prompts, at one gateway and spread over all of them. */
export async function nobodyRefused(fleet: WideFleet, disturb: Disturbance): Promise<void> {
  const { gateways } = fleet;
  for (const bytes of [smallBytes, largeBytes])
    for (let burst = 0; burst < burstsOfCase; burst++) {
      const disturbance = disturb();
      try {
        const statuses = await fleet.burst(burst === 0 ? gateways.slice(0, 1) : gateways, bytes);
        expect(Object.fromEntries(statuses), `${bytes} bytes, burst ${burst}`).toEqual({ 200: inBurst });
      } finally {
        await disturbance.stop();
      }
    }
}

/**
 * Returns the first `count` combinations of a disturbance and a number of gateways, or all of them in the nightly run.
 * `slowLog` makes the log repeatedly answer after a second.
 */
export function burstCases(slowLog: Disturbance, count: number) {
  const disturbances: Readonly<Record<string, Disturbance>> = {
    'a log that answers after a second': slowLog,
    calm: () => ({ stop: () => undefined }),
    busy,
  };
  const all = [10, 2].flatMap((gateways) =>
    Object.entries(disturbances).map(([name, disturb]) => ({ gateways, name, disturb })),
  );
  const chosen = all.slice(0, runs({ fast: count, full: count }));
  // Cases can add gateways but not stop them, so the cases with fewer gateways run first.
  return chosen.reverse();
}
