import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';
import { scaledMs } from './test/support/budget.ts';

const shared = {
  exclude: ['dist/**', '**/node_modules/**', '.cache/**'],
  testTimeout: scaledMs(30_000),
  hookTimeout: scaledMs(60_000),
};

/** Files of more than a minute: where one of them were the last, nothing would run next to it. */
const longest = [
  'test/mutation/suite-mutations.process.test.ts',
  'shared/snapshot/snapshot-crash.process.test.ts',
  'test/fuzz/fuzz.process.test.ts',
  'test/attacks/attacks.process.test.ts',
  'test/attacks/isolation.process.test.ts',
];

class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const isLong = ({ moduleId }: TestSpecification): boolean =>
      longest.some((path) => moduleId.endsWith(path));
    const sorted = await super.sort(files);
    return [...sorted.filter(isLong), ...sorted.filter((file) => !isLong(file))];
  }
}

/** Tests that start processes. */
const setupFiles = ['test/support/leaks.ts'];

export default defineConfig({
  test: {
    sequence: { sequencer: LongestFirst },
    coverage: {
      include: ['{schemas,shared,control-plane,data-plane,agent,dev,cli}/**/*.ts'],
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
          maxWorkers: 2,
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
          maxWorkers: 2,
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
          maxWorkers: 2,
        },
      },
      // Real processes of the built service, killed and restarted.
      {
        test: {
          ...shared,
          name: 'process',
          setupFiles,
          include: ['**/*.process.test.ts'],
          testTimeout: scaledMs(120_000),
          // Ports are free ones and folders temporary, and most of these tests wait.
          maxWorkers: 2,
          sequence: { groupOrder: 1 },
        },
      },
      // A real browser, with the built pages of a real service.
      {
        test: {
          ...shared,
          name: 'browser',
          include: ['**/*.browser.test.ts'],
          testTimeout: scaledMs(120_000),
          maxWorkers: 1,
          sequence: { groupOrder: 4 },
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
          testTimeout: scaledMs(180_000),
          fileParallelism: false,
          sequence: { groupOrder: 2 },
        },
      },
      // A real llama.cpp server behind the built service.
      {
        test: {
          ...shared,
          name: 'llamacpp',
          include: ['**/*.llamacpp.test.ts'],
          testTimeout: scaledMs(120_000),
          maxWorkers: 3,
          sequence: { groupOrder: 3 },
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
