/**
 * The claims that every engine must fulfil, written once. An engine that cannot fulfil a claim gives the reason in `skips`.
 * If engines differ, the dialect's table decides: a field that it grants must work, and any other field must be refused.
 */
import { afterAll, beforeAll, test } from 'vitest';
import { type Bench, startBench } from './bench.ts';
import type { Engine } from './engine.ts';

export interface Claim {
  readonly name: string;
  run(bench: Bench): Promise<void>;
}

/** Registers the claims for one engine as tests. They run in order on a shared bench. */
export function proveEngine(engine: Engine, claims: readonly Claim[]): void {
  let bench: Bench;
  beforeAll(async () => {
    bench = await startBench(engine);
  }, 600_000);
  afterAll(() => bench?.close(), 60_000);
  for (const { name, run } of claims) {
    const why = engine.skips[name];
    if (why === undefined)
      test(`${engine.dialect}: ${name}`, async () => run(await bench.forNewcomer()), 300_000);
    else test.skip(`${engine.dialect}: ${name} (${why})`, () => undefined);
  }
}
