/**
 * The claims about every engine, written once. A claim holds for an engine, or the engine states in `skips` why it cannot.
 * Where engines differ, the dialect's table says what to expect: what it grants works, what it does not is refused.
 */
import { afterAll, beforeAll, test } from 'vitest';
import { type Bench, startBench } from './bench.ts';
import type { Engine } from './engine.ts';

export interface Claim {
  readonly name: string;
  run(bench: Bench): Promise<void>;
}

/** Registers the claims for one engine, in their order, on one bench. */
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
