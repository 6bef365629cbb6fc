/** Starts the console of a control-plane replica. */
import { join } from 'node:path';
import type { Closers } from '../../shared/runtime/closers.ts';
import type { Connections } from '../../shared/runtime/connections.ts';
import { listenerUrl } from '../../shared/runtime/listener.ts';
import type { Certificate } from '../../shared/runtime/tls.ts';
import type { AdminContext } from '../admin-api/context.ts';
import { openHttpApp } from '../admin-api/http-app.ts';
import { EndedSessions } from '../sessions/ended-sessions.ts';
import { createConsoleApp, type ServiceAddresses } from './console-app.ts';
import type { OidcSettings } from './oidc.ts';

export interface ConsoleSettings {
  readonly bind: string;
  readonly port: number;
  /** Host names that browsers may use in addition to loopback. */
  readonly hosts: readonly string[];
  /** Address that browsers use, if it differs from the listener's. Sign-in links contain it. */
  readonly url?: string | undefined;
  readonly addresses?: (() => ServiceAddresses) | undefined;
  readonly oidc?: OidcSettings | undefined;
  /** Whether members sign in without credentials, which only `headgate dev` allows. */
  readonly demo?: boolean | undefined;
}

export interface ConsoleParts {
  readonly connections: Connections;
  readonly certificate: Certificate | undefined;
  readonly dataDir: string;
}

/** Starts the console and returns its address. */
export async function startConsole(
  settings: ConsoleSettings,
  context: AdminContext,
  { connections, certificate, dataDir }: ConsoleParts,
  closers: Closers,
): Promise<string> {
  const { snapshot, log, logger, links } = context;
  if (!links) throw new Error('a console needs sign-in links');
  const { bind: host, port, url: publicUrl, demo = false, oidc, addresses = () => ({}) } = settings;
  const ended = new EndedSessions({ path: join(dataDir, 'sessions.db'), snapshot, log, logger });
  closers.add(() => {
    stop();
    ended.close();
  });
  const stop = context.onCommits(ended.onCommits);
  const hosts = publicUrl === undefined ? settings.hosts : [...settings.hosts, new URL(publicUrl).hostname];
  const app = await createConsoleApp(
    context,
    { connections, certificate },
    { hosts, demo, links, ended, addresses, oidc, publicUrl: publicUrl?.replace(/\/+$/, '') },
  );
  const address = await openHttpApp(app, { host, port, portFlag: '--console-port' }, closers);
  const own = listenerUrl(address, certificate !== undefined);
  links.base = publicUrl?.replace(/\/+$/, '') ?? own;
  return own;
}
