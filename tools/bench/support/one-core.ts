/** Runs a gateway on one processor and all else on another. Without `taskset`, both are shared, so figures mean less. */
import { spawnSync } from 'node:child_process';
import type { DevAdmin } from '../../dev/dev-admin.ts';
import type { Target } from './load.ts';
import { body, createTarget, serve, startScript } from './served.ts';

const measuredCore = '1';
const otherCore = '0';

export interface OneCore {
  readonly admin: DevAdmin;
  readonly pid: number;
  readonly target: Target;
  /** Bare Node proxy that runs on the gateway's processor. */
  readonly bare: { readonly pid: number; readonly target: Target };
  end(): Promise<void>;
}

function pin(pid: number, core: string): void {
  spawnSync('taskset', ['-acp', core, String(pid)], { stdio: 'ignore' });
}

export async function startOnOneCore(): Promise<OneCore> {
  // Processes that are started from this one inherit its processor.
  pin(process.pid, otherCore);
  const node = await startScript('flat-node');
  const upstream = `http://127.0.0.1:${node.port}`;
  const served = await serve(upstream);
  const bare = await startScript('bare-proxy', [upstream]);
  for (const { pid } of [served, bare]) pin(pid, measuredCore);
  const text = body(60);
  return {
    ...{ admin: served.admin, pid: served.pid, target: createTarget(served.port, text, served.key) },
    bare: { pid: bare.pid, target: createTarget(bare.port, text) },
    end: async () => {
      bare.stop();
      await served.end();
      node.stop();
    },
  };
}
