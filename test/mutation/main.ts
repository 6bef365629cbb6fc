/**
 * `npm run mutation [-- TEXT] [--sample N] [--seed S]`: breaks one rule of a source file at a time and runs the tests that
 * must notice. TEXT selects mutations whose module or rule contains it, and `--sample` picks N of them at random.
 * `--unbroken` breaks nothing, to show that the tests pass. Prints each survivor, then one line of figures. Exits with 1 if a
 * mutation survives or if tests fail without a mutation. A suite that uses `--sample` also runs the whole test files itself,
 * so only tests selected by name are checked without a mutation first.
 */
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { seededRandom } from '../support/random.ts';
import { type Mutation, suiteMutations } from './mutations.ts';
import { namePattern, SuiteRunner } from './suite-runner.ts';

// Runs the full tier, because a property test with few runs may not notice a mutation.
process.env['HEADGATE_TEST_TIER'] ??= 'full';

const { values, positionals } = parseArgs({
  options: { sample: { type: 'string' }, seed: { type: 'string' }, unbroken: { type: 'boolean' } },
  allowPositionals: true,
});
const seed = Number(values.seed ?? Date.now() % 1_000_000);
const matching = suiteMutations().filter(({ module, rule }) =>
  `${module}: ${rule}`.includes(positionals[0] ?? ''),
);
const mutations = values.sample === undefined ? matching : sampleOf(matching, Number(values.sample), seed);
if (values.sample !== undefined) console.log(`SEED=${seed}`);
const runner = await SuiteRunner.start(process.cwd());
const faults: string[] = [];

/** Picks up to `size` values at random. `start` is the seed. */
function sampleOf<Value>(all: readonly Value[], size: number, start: number): Value[] {
  const random = seededRandom(start);
  return all
    .map((value) => ({ value, order: random() }))
    .sort((a, b) => a.order - b.order)
    .slice(0, size)
    .map(({ value }) => value);
}

/** Checks that the tests pass without a mutation, so that a later failure is caused by the mutation. */
async function runWithout({ tests, only }: Pick<Mutation, 'tests' | 'only'>): Promise<void> {
  const { passed, failed, errors } = await runner.run(tests, undefined, namePattern([only]));
  if (passed === 0 || failed.length + errors.length > 0)
    faults.push(
      `without a mutation, ${tests.join(', ')}: ${passed} passed; ${[...failed, ...errors].join('; ')}`,
    );
}

async function runWith(mutation: Mutation): Promise<void> {
  const { passed, failed, errors } = await runner
    .run(mutation.tests, mutation)
    // If the source no longer contains the mutation's text, this is reported and the other mutations still run.
    .catch((error: Error) => ({ passed: 0, failed: [], errors: [error.message] }));
  if (failed.length > 0) return;
  // If the mutated source cannot be loaded, the failure says nothing about the rule.
  const why = errors.length > 0 ? `does not run: ${errors[0]}` : `SURVIVES ${passed} tests`;
  faults.push(`${join(mutation.module)}: ${mutation.rule}: ${why}`);
}

const choices = new Map(mutations.map(({ tests, only }) => [JSON.stringify([tests, only]), { tests, only }]));
const isOfSuite = values.sample !== undefined && !values.unbroken;
for (const choice of choices.values()) if (!isOfSuite || choice.only !== undefined) await runWithout(choice);
for (const mutation of values.unbroken ? [] : mutations) {
  await runWith(mutation);
  if (process.stdout.isTTY) process.stdout.write(`\r${mutation.module}: ${mutation.rule}\x1b[K`);
}
await runner.close();
for (const fault of faults) console.error(fault);
console.log(`${mutations.length} mutations, ${faults.length} faults`);
process.exit(faults.length > 0 || mutations.length === 0 ? 1 : 0);
