/**
 * One broker for the Kafka tests of a run that leave it alone: those on topics of their own, and one fleet, because the
 * topics of the service have fixed names. All others start their own.
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

// Vitest calls it by this name; no source imports it.
export { setup };
