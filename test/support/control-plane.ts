/** Starts a single control plane on an embedded log in its own folder, without gateways or nodes. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startControlPlane } from '../../control-plane/main.ts';
import type { ControlPlaneSettings } from '../../control-plane/settings.ts';
import { DevAdmin } from '../../tools/dev/dev-admin.ts';
import { operatorToken, planeSettings } from './fleet.ts';

export interface TestControlPlane {
  readonly url: string;
  /** Address of the console, if the settings enable it. */
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
    ...planeSettings(dir, `sqlite:${join(dir, 'log')}`),
    ...{ name: 'cp', dataDir: join(dir, 'cp') },
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
