/** One control plane on an embedded log in a folder of its own, without gateways or nodes. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type ControlPlaneSettings, startControlPlane } from '../../control-plane/main.ts';
import { DevAdmin } from '../../dev/dev-admin.ts';
import { operatorToken, quiet } from './fleet.ts';

export interface TestControlPlane {
  readonly url: string;
  /** Of the console, where the settings have one. */
  readonly console?: string | undefined;
  readonly dir: string;
  readonly admin: DevAdmin;
  close(): Promise<void>;
}

export async function startControlPlaneAlone(
  settings: Partial<ControlPlaneSettings> = {},
): Promise<TestControlPlane> {
  const dir = mkdtempSync(join(tmpdir(), 'headgate-control-plane-'));
  const {
    admin: url,
    console,
    close,
  } = await startControlPlane({
    logUrl: `sqlite:${join(dir, 'log')}`,
    dataDir: join(dir, 'cp'),
    name: 'cp',
    bind: '127.0.0.1',
    port: 0,
    metricsPort: 0,
    operatorToken,
    gatewayToken: operatorToken,
    logger: quiet,
    ...settings,
  });
  return {
    url,
    console,
    dir,
    admin: new DevAdmin(url, settings.operatorToken ?? operatorToken),
    close: async () => {
      await close();
      rmSync(dir, { recursive: true, force: true });
    },
  };
}
