/** Opens the listeners for requests: for the API, for each stack with a port of its own, and for the playground. */

import type { Closers } from '../shared/runtime/closers.ts';
import type { Connections } from '../shared/runtime/connections.ts';
import { type Listener, startListener } from './http/api-listener.ts';
import { withOrigins } from './http/cors.ts';
import type { Gateway } from './request/gateway.ts';
import { handle } from './request/handle.ts';
import type { GatewaySettings } from './settings.ts';

export interface RequestListeners {
  readonly api: Listener;
  readonly stacks: readonly { readonly stack: string; readonly listener: Listener }[];
  readonly play: Listener | undefined;
}

export async function listen(
  settings: GatewaySettings,
  gateway: Gateway,
  connections: Connections,
  closers: Closers,
): Promise<RequestListeners> {
  const handler = withOrigins(settings.corsOrigins ?? new Set(), handle.bind(undefined, gateway));
  const onRefusal = gateway.observeEarly;
  const { port, bind, gatewayToken, certificate } = settings;
  const base = { host: bind, handler, certificate, connections, onRefusal };
  const opened = (listener: Listener): Listener => {
    closers.add(() => listener.destroy());
    return listener;
  };
  const api = opened(await startListener({ ...base, name: 'api', port, flag: '--port' }));
  const stacks: { stack: string; listener: Listener }[] = [];
  for (const { stack, port } of settings.stackPorts) {
    const fixed = { kind: 'stack', stack } as const;
    const options = { ...base, name: 'stack', port, fixed, flag: '--stack-port' } as const;
    stacks.push({ stack, listener: opened(await startListener(options)) });
  }
  if (settings.play === undefined) return { api, stacks, play: undefined };
  const { startPlay } = await import('./playground/start-play.ts');
  const means = { gateway, gatewayToken, bind, certificate, connections };
  return { api, stacks, play: opened(await startPlay(settings.play, means)) };
}
