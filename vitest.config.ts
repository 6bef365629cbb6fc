import { defineConfig } from 'vitest/config';

const shared = {
  exclude: ['dist/**', '**/node_modules/**', '.cache/**'],
  testTimeout: 30_000,
  hookTimeout: 60_000,
};

export default defineConfig({
  test: {
    projects: [
      {
        test: {
          ...shared,
          name: 'unit',
          // No test leaves anything behind in its modules, so files share workers and what they imported.
          isolate: false,
          maxWorkers: 2,
          include: ['**/*.test.ts'],
          exclude: [...shared.exclude, '**/*.{process,kafka,llamacpp,engines,clients}.test.ts'],
        },
      },
      // Real processes of the built service, killed and restarted.
      {
        test: {
          ...shared,
          name: 'process',
          include: ['**/*.process.test.ts'],
          testTimeout: 120_000,
          // Ports are free ones and folders temporary, and most of these tests wait.
          maxWorkers: 2,
          sequence: { groupOrder: 1 },
        },
      },
      // A real Kafka broker, brought up by test/kafka/broker.ts.
      {
        test: {
          ...shared,
          name: 'kafka',
          include: ['**/*.kafka.test.ts'],
          testTimeout: 180_000,
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
          testTimeout: 120_000,
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
      // Client libraries of many versions, installed apart by test/clients/install.mjs.
      {
        test: {
          ...shared,
          name: 'clients',
          include: ['**/*.clients.test.ts'],
          testTimeout: 120_000,
          fileParallelism: false,
        },
      },
    ],
  },
});
