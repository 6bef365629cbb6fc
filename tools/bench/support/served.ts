/** Starts the processes that benches measure: scripts, and a gateway with one node and every feature except limits. */
import { spawn } from 'node:child_process';
import { ProcessFleet } from '../../../test/support/process-fleet.ts';
import { until } from '../../../test/support/until.ts';
import { demoFleet } from '../../dev/demo-fleet.ts';
import type { DevAdmin } from '../../dev/dev-admin.ts';
import type { Target } from './load.ts';

export interface BenchService {
  readonly admin: DevAdmin;
  readonly port: number;
  readonly pid: number;
  readonly key: string;
  end(): Promise<void>;
}

export async function serve(upstream: string): Promise<BenchService> {
  const fleet = new ProcessFleet({ env: { HEADGATE_LOG_LEVEL: 'info' } });
  const admin = fleet.admin(await fleet.startPlane());
  const urls = { 'pool-1': upstream, 'acme-1': upstream, 'acme-s1': upstream, 'birch-s1': upstream };
  const { tiers = [], ...demo } = demoFleet(urls);
  await admin.apply({ ...demo, tiers: tiers.map(({ id, models }) => ({ id, models })) });
  const { value: key } = await admin.createKey('birch', 'bench');
  await until(async () => (await admin.nodes()).every(({ up }) => up));
  const gateway = await fleet.startGateway('gateway');
  return {
    ...{ admin, key, pid: gateway.ready.pid, port: Number(new URL(gateway.ready.api).port) },
    // Ends the gateway cleanly, because the measurement includes what the gateway writes on shutdown.
    end: async () => {
      await gateway.end();
      await fleet.close();
    },
  };
}

/** Starts a script of this folder and reads the port that the script prints. */
export async function startScript(
  name: string,
  args: readonly string[] = [],
): Promise<{ readonly port: number; readonly pid: number; stop(): void }> {
  const script = new URL(`./${name}.js`, import.meta.url).pathname;
  const child = spawn(process.execPath, [script, ...args], { stdio: ['ignore', 'pipe', 'inherit'] });
  const port = await new Promise<number>((resolve) =>
    child.stdout.once('data', (chunk: Buffer) => resolve(Number(chunk.toString()))),
  );
  return { port, pid: child.pid ?? 0, stop: () => void child.kill('SIGKILL') };
}

/** Returns the body of a request of 1.1 KB that asks for this many words. */
export function body(words: number, more: Readonly<Record<string, unknown>> = {}): string {
  const content = `say ${words} words like ${'words of some length '.repeat(48)}`;
  return JSON.stringify({
    ...{ model: 'echo-small', max_tokens: words },
    ...more,
    messages: [{ role: 'user', content }],
  });
}

export function createTarget(port: number, text: string, key?: string): Target {
  const headers: Record<string, string> = key === undefined ? {} : { Authorization: `Bearer ${key}` };
  return { port, path: '/v1/chat/completions', host: '127.0.0.1', headers, body: text };
}
