/**
 * Starts one broker for those Kafka tests of a run that do not disturb it: tests with topics of their own, and a single
 * fleet, because the topics of the service have fixed names. All other tests start a broker of their own.
 */
import type { TestProject } from 'vitest/node';
import { startKafka } from './broker.ts';

declare module 'vitest' {
  interface ProvidedContext {
    readonly kafka: { readonly url: string; readonly brokers: readonly string[] };
  }
}

async function setup(project: TestProject): Promise<() => Promise<void>> {
  const { url, brokers, stop } = await startKafka();
  project.provide('kafka', { url, brokers });
  return stop;
}

// Vitest calls this export by its name; no source imports it.
export { setup };
