/**
 * Runs existing test files against source files with one text replaced. One long-lived Vitest runs all mutations, so each
 * costs only the time of its tests. The text is replaced when a source file is loaded, so no file is changed.
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createVitest, type Vitest } from 'vitest/node';
import { type Mutation, mutate } from './mutations.ts';

export interface SuiteOutcome {
  readonly passed: number;
  readonly failed: readonly string[];
  /** Errors that occurred outside of tests, such as a source file that cannot be loaded. */
  readonly errors: readonly string[];
}

export class SuiteRunner {
  readonly #root: string;
  /** Folder for the tests' temporary files, because a test with a broken rule may not remove its own. */
  readonly #folder: string;
  readonly #vitest: Vitest;
  readonly #active: { mutation: Mutation | undefined };

  private constructor(
    root: string,
    folder: string,
    vitest: Vitest,
    active: { mutation: Mutation | undefined },
  ) {
    this.#root = root;
    this.#folder = folder;
    this.#vitest = vitest;
    this.#active = active;
  }

  static async start(root: string): Promise<SuiteRunner> {
    const active: { mutation: Mutation | undefined } = { mutation: undefined };
    const folder = mkdtempSync(join(tmpdir(), 'headgate-mutation-'));
    const vitest = await createVitest(
      'test',
      {
        config: false,
        root,
        watch: false,
        reporters: [{}],
        maxWorkers: 1,
        testTimeout: 30_000,
        hookTimeout: 60_000,
        bail: 1,
        env: { TMPDIR: folder },
      },
      {
        plugins: [
          {
            name: 'mutation',
            enforce: 'pre',
            transform(code: string, id: string): string | undefined {
              const mutation = active.mutation;
              if (mutation === undefined || id !== join(root, mutation.module)) return undefined;
              return mutate(code, mutation);
            },
          },
        ],
      },
    );
    await vitest.standalone();
    return new SuiteRunner(root, folder, vitest, active);
  }

  /** Runs test files until the first test fails, with or without a mutation. */
  async run(
    tests: readonly string[],
    mutation?: Mutation,
    only = namePattern([mutation?.only]),
  ): Promise<SuiteOutcome> {
    const project = this.#vitest.getRootProject();
    const touched = mutation && join(this.#root, mutation.module);
    if (mutation && touched) mutate(readFileSync(touched, 'utf8'), mutation);
    this.#active.mutation = mutation;
    if (touched) this.#vitest.invalidateFile(touched);
    try {
      const { testModules, unhandledErrors } = await this.#vitest.runTestSpecifications(
        tests.map((test) =>
          project.createSpecification(join(this.#root, test), only && { testNamePattern: only }),
        ),
      );
      // Ignores modules of earlier runs, which Vitest returns again with their old failures.
      const own = testModules.filter(({ moduleId }) =>
        tests.some((test) => moduleId === join(this.#root, test)),
      );
      const all = own.flatMap((module) => [...module.children.allTests()]);
      return {
        passed: all.filter((test) => test.ok() && test.result().state === 'passed').length,
        failed: all.filter((test) => test.result().state === 'failed').map((test) => test.fullName),
        errors: [
          ...own.flatMap((module) => module.errors().map((error) => String(error.message))),
          ...unhandledErrors.map((error) => String((error as { message?: unknown }).message)),
        ],
      };
    } finally {
      this.#active.mutation = undefined;
      if (touched) this.#vitest.invalidateFile(touched);
    }
  }

  async close(): Promise<void> {
    await this.#vitest.close();
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

/**
 * Returns a pattern that matches names containing any of these texts. If one text is undefined, returns undefined, which
 * selects all names.
 */
export function namePattern(names: readonly (string | undefined)[]): RegExp | undefined {
  if (names.includes(undefined)) return undefined;
  return new RegExp(names.map((name = '') => name.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')).join('|'));
}
