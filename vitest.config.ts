import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';
import { scaledMs } from './test/support/budget.ts';
import { longestFiles } from './test/support/longest-files.ts';

const shared = {
  exclude: ['dist/**', '**/node_modules/**', '.cache/**'],
  testTimeout: scaledMs(30_000),
  hookTimeout: scaledMs(60_000),
};

/** By `longestFiles` within what runs together, so without regard to projects; the others as Vitest has them. */
class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const groupOf = ({ project }: TestSpecification): number => project.config.sequence.groupOrder;
    const rankOf = ({ moduleId }: TestSpecification): number => {
      const rank = longestFiles.findIndex((path) => moduleId.endsWith(`/${path}`));
      return rank === -1 ? longestFiles.length : rank;
    };
    const sorted = await super.sort(files);
    return sorted.sort((a, b) => groupOf(a) - groupOf(b) || rankOf(a) - rankOf(b));
  }
}

/**
 * Projects that mostly wait, for processes, brokers and pages: their files run side by side, after the unit tests, one
 * more at a time than a usual machine has cores. Ports are free ones and folders temporary. One worker runs many files, as
 * for the unit tests: `leaks.ts` gives each its own environment, and no file leaves anything in the modules it shares.
 */
const waiting = { maxWorkers: 3, sequence: { groupOrder: 1 }, isolate: false };

/** Some wait for timers: with three a quarter of two cores was idle. What runs together must have one number. */
const unitWorkers = 4;

/** Tests that start processes. */
const setupFiles = ['test/support/leaks.ts'];

export default defineConfig({
  test: {
    sequence: { sequencer: LongestFirst },
    coverage: {
      include: ['{schemas,shared,control-plane,data-plane,agent,tools,cli}/**/*.ts'],
      exclude: ['**/*.test.ts'],
      reporter: ['text-summary', 'html'],
      reportsDirectory: '.cache/coverage',
    },
    projects: [
      {
        test: {
          ...shared,
          name: 'unit',
          // No test leaves anything behind in its modules, so files share workers and what they imported.
          isolate: false,
          maxWorkers: unitWorkers,
          include: ['**/*.test.ts'],
          exclude: [
            ...shared.exclude,
            '**/*.{process,kafka,browser,llamacpp,engines,clients,release}.test.ts',
          ],
        },
      },
      // Both roads through processes: the part of `process` and `kafka` that `npm test` runs, next to the unit tests.
      {
        test: {
          ...shared,
          name: 'smoke',
          setupFiles,
          include: ['test/smoke/*.process.test.ts'],
          testTimeout: scaledMs(60_000),
          maxWorkers: unitWorkers,
        },
      },
      {
        test: {
          ...shared,
          name: 'kafka-smoke',
          setupFiles,
          include: ['test/smoke/*.kafka.test.ts'],
          globalSetup: 'test/kafka/shared-broker.ts',
          testTimeout: scaledMs(120_000),
          maxWorkers: unitWorkers,
        },
      },
      // Real processes of the built service, killed and restarted.
      {
        test: {
          ...shared,
          name: 'process',
          setupFiles,
          ...waiting,
          include: ['**/*.process.test.ts'],
          testTimeout: scaledMs(120_000),
        },
      },
      // A real browser, with the built pages of a real service.
      {
        test: {
          ...shared,
          name: 'browser',
          include: ['**/*.browser.test.ts'],
          ...waiting,
          testTimeout: scaledMs(120_000),
        },
      },
      // Real Kafka brokers: one for all files that leave it alone, more where a test kills or configures them.
      {
        test: {
          ...shared,
          name: 'kafka',
          setupFiles,
          globalSetup: 'test/kafka/shared-broker.ts',
          include: ['**/*.kafka.test.ts'],
          ...waiting,
          // Some count timers and connections of the whole worker.
          isolate: true,
          testTimeout: scaledMs(180_000),
        },
      },
      // A real llama.cpp server behind the built service.
      {
        test: {
          ...shared,
          name: 'llamacpp',
          include: ['**/*.llamacpp.test.ts'],
          ...waiting,
          testTimeout: scaledMs(120_000),
        },
      },
      // The other engines, one after another: each takes gigabytes and minutes.
      {
        test: {
          ...shared,
          name: 'engines',
          include: ['**/*.engines.test.ts'],
          fileParallelism: false,
        },
      },
      // What a release consists of: the image and the npm package, built and run for real.
      {
        test: {
          ...shared,
          name: 'release',
          setupFiles,
          include: ['**/*.release.test.ts'],
          testTimeout: scaledMs(120_000),
          fileParallelism: false,
        },
      },
      // Client libraries of many versions, installed apart by test/clients/install.mjs.
      {
        test: {
          ...shared,
          name: 'clients',
          include: ['**/*.clients.test.ts'],
          testTimeout: scaledMs(120_000),
          fileParallelism: false,
        },
      },
    ],
  },
});
