/** Reads the states of nodes: as gateways list them, as the admin API reports them, and as the log records them. */
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import type { LiveNodeResource } from '../../schemas/admin/admin.ts';
import type { DevAdmin } from '../../tools/dev/dev-admin.ts';

export async function listedNode(admin: DevAdmin, id: string): Promise<LiveNodeResource | undefined> {
  return (await admin.nodes()).find((node) => node.id === id);
}

export interface ListedEvent {
  readonly position: number;
  readonly type: string;
  readonly data: Readonly<Record<string, unknown>>;
}

export async function eventsFrom(admin: DevAdmin, from: number): Promise<readonly ListedEvent[]> {
  return (await admin.call('GET', `/events?from=${from}`)).items as ListedEvent[];
}

export async function lists(api: string, model: string): Promise<boolean> {
  const { data } = (await (await fetch(`${api}/models`)).json()) as { data: { id: string }[] };
  return data.some(({ id }) => id === model);
}

/** A proxy to a control plane. While it is cut, its connections end and it accepts no new ones. */
export class Cable {
  readonly #sockets = new Set<Socket>();
  readonly #server: Server;
  readonly url: string;

  private constructor(server: Server, target: number) {
    this.#server = server;
    this.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    server.on('connection', (near) => {
      const far = connect(target, '127.0.0.1');
      for (const [from, to] of [
        [near, far],
        [far, near],
      ] as const) {
        this.#sockets.add(from);
        from.on('error', () => undefined).on('close', () => to.destroy());
        from.pipe(to);
      }
    });
  }

  static async open(target: string): Promise<Cable> {
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    return new Cable(server, Number(new URL(target).port));
  }

  cut(): void {
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
  }
}
