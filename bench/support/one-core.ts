/**
 * A gateway with everything on, alone on one processor; load, node and control plane are on another. Pinning needs `taskset`:
 * without it all share the machine, and the figures say less.
 */
import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { demoFleet } from '../../dev/demo-fleet.ts';
import { DevAdmin } from '../../dev/dev-admin.ts';
import { startProcess } from '../../test/support/processes.ts';
import type { Target } from './load.ts';

const token = 'bench-operator-token-000001';
const measuredCore = '1';
const otherCore = '0';

export interface OneCore {
  readonly admin: DevAdmin;
  readonly pid: number;
  readonly target: Target;
  /** A bare Node proxy on the same processor. */
  readonly bare: { readonly pid: number; readonly target: Target };
  end(): Promise<void>;
}

function pin(pid: number, core: string): void {
  spawnSync('taskset', ['-acp', core, String(pid)], { stdio: 'ignore' });
}

/** Starts a script of this folder that prints its port. */
async function startScript(
  name: string,
  args: readonly string[],
  core: string,
): Promise<{ port: number; pid: number; stop: () => void }> {
  const script = new URL(`./${name}.js`, import.meta.url).pathname;
  const child = spawn(process.execPath, [script, ...args], { stdio: ['ignore', 'pipe', 'inherit'] });
  const port = await new Promise<number>((resolve) =>
    child.stdout.once('data', (chunk: Buffer) => resolve(Number(chunk.toString()))),
  );
  const pid = child.pid ?? 0;
  pin(pid, core);
  return { port, pid, stop: () => child.kill('SIGKILL') };
}

/** A request of 1.1 KB; the node's answer has 0.5 KB. */
const body = JSON.stringify({
  model: 'echo-small',
  max_tokens: 60,
  messages: [{ role: 'user', content: `say 60 words like ${'words of some length '.repeat(48)}` }],
});

function targetAt(port: number, key?: string): Target {
  const headers: Record<string, string> = key === undefined ? {} : { Authorization: `Bearer ${key}` };
  return { port, path: '/v1/chat/completions', host: '127.0.0.1', headers, body };
}

/** `nodeOptions`: of the gateway's process. */
export async function startOnOneCore(nodeOptions = '', more: Record<string, string> = {}): Promise<OneCore> {
  const dir = mkdtempSync(join(tmpdir(), 'headgate-bench-'));
  pin(process.pid, otherCore);
  const node = await startScript('flat-node', [], otherCore);
  const upstream = `http://127.0.0.1:${node.port}`;
  const env = { HEADGATE_OPERATOR_TOKEN: token, HEADGATE_LOG_LEVEL: 'info' };
  const common = ['--log', `sqlite:${join(dir, 'log')}`, '--port', '0', '--metrics-port', '0'];
  const plane = await startProcess<{ admin: string; pid: number }>({
    dir,
    name: 'cp',
    args: ['control-plane', ...common, '--data', join(dir, 'cp')],
    env,
  });
  const admin = new DevAdmin(plane.ready.admin, token);
  const fleet = demoFleet({
    'pool-1': upstream,
    'acme-1': upstream,
    'acme-s1': upstream,
    'birch-s1': upstream,
  });
  await admin.apply({
    ...fleet,
    tiers: (fleet.tiers ?? []).map(({ id, models }) => ({ id, models })),
  });
  const { value: key } = await admin.createKey('birch', 'bench');
  while (!(await admin.nodes()).some(({ id, up }) => id === 'pool-1' && up))
    await new Promise((resolve) => setTimeout(resolve, 100));
  const gateway = await startProcess<{ api: string; pid: number }>({
    dir,
    name: 'gw',
    args: ['gateway', ...common, '--data', join(dir, 'gw'), '--drain-delay', '0'],
    env: { ...env, ...more, NODE_OPTIONS: nodeOptions },
  });
  pin(gateway.ready.pid, measuredCore);
  const bare = await startScript('bare-proxy', [upstream], measuredCore);
  return {
    admin,
    pid: gateway.ready.pid,
    target: targetAt(Number(new URL(gateway.ready.api).port), key),
    bare: { pid: bare.pid, target: targetAt(bare.port) },
    end: async () => {
      bare.stop();
      await gateway.end();
      await plane.end('SIGKILL');
      node.stop();
      rmSync(dir, { recursive: true, force: true });
    },
  };
}
