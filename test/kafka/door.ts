/**
 * A proxy to the brokers. Kafka advertises one of its listeners under the door's ports, so that all traffic of a process can
 * go through the door, which parses protocol frames. Responses to appends (and to nothing else) can be lost, cut off or
 * delayed. Appends can be held or dropped. The whole door can be shut, like a network that refuses connections or stays
 * silent.
 */
import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';

/**
 * What happens to one append:
 * - `lose`: it is written but never answered;
 * - `cut`: it is written, but then the connection ends instead of a response;
 * - `swallow`: the connection ends before the append is forwarded;
 * - `hold`: it is forwarded only on `release`, even if its sender has given up by then;
 * - `lateMs`: it is answered this much later, in ms.
 */
export type Fate = 'pass' | 'lose' | 'cut' | 'swallow' | 'hold' | { readonly lateMs: number };

const produceKey = 0;

/** A client's connection to a broker, with the broker's responses. */
class Passage {
  readonly #door: Door;
  readonly #client: Socket;
  readonly #broker: Socket;
  readonly #fates = new Map<number, Fate>();
  #fromClient = Buffer.alloc(0);
  #fromBroker = Buffer.alloc(0);
  #held = false;
  #silent = false;

  constructor(door: Door, client: Socket, targetPort: number) {
    this.#door = door;
    this.#client = client;
    this.#broker = connect(targetPort, '127.0.0.1');
    client.setNoDelay(true);
    this.#broker.setNoDelay(true);
    client.on('error', () => undefined);
    this.#broker.on('error', () => undefined);
    client.on('close', () => {
      if (!this.#held) this.end();
    });
    this.#broker.on('close', () => {
      if (!this.#silent) this.end();
    });
    client.on('data', (chunk: Buffer) => {
      if (!this.#silent) this.#takeRequests(chunk);
    });
    this.#broker.on('data', (chunk: Buffer) => {
      if (!this.#silent) this.#takeAnswers(chunk);
    });
  }

  end(): void {
    this.#client.destroy();
    this.#broker.destroy();
    this.#door.passages.delete(this);
  }

  fallSilent(): void {
    this.#silent = true;
  }

  #takeRequests(chunk: Buffer): void {
    this.#fromClient = Buffer.concat([this.#fromClient, chunk]);
    for (let frame = frameOf(this.#fromClient); frame; frame = frameOf(this.#fromClient)) {
      this.#fromClient = this.#fromClient.subarray(frame.length);
      const fate = this.#fateOf(frame);
      if (fate === 'swallow') this.end();
      else if (fate === 'hold') this.#hold(frame);
      else this.#broker.write(frame);
    }
  }

  #fateOf(frame: Buffer): Fate {
    if (frame.readInt16BE(4) !== produceKey) return 'pass';
    const fate = this.#door.fateOf(topicOf(frame));
    if (fate !== 'pass') this.#fates.set(frame.readInt32BE(8), fate);
    return fate;
  }

  #hold(frame: Buffer): void {
    this.#held = true;
    this.#door.held.push(() => {
      this.#held = false;
      this.#broker.write(frame, () => {
        // The append must arrive even if its sender disconnected long ago.
        if (this.#client.destroyed) this.#broker.end();
      });
    });
  }

  #takeAnswers(chunk: Buffer): void {
    this.#fromBroker = Buffer.concat([this.#fromBroker, chunk]);
    for (let frame = frameOf(this.#fromBroker); frame; frame = frameOf(this.#fromBroker)) {
      this.#fromBroker = this.#fromBroker.subarray(frame.length);
      const fate = this.#fates.get(frame.readInt32BE(4)) ?? 'pass';
      this.#fates.delete(frame.readInt32BE(4));
      if (fate === 'cut') this.end();
      else if (typeof fate === 'object') setTimeout(this.#answer.bind(this), fate.lateMs, frame);
      else if (fate !== 'lose') this.#answer(frame);
    }
  }

  #answer(frame: Buffer): void {
    if (!this.#silent) this.#client.write(frame);
  }
}

/** Returns the first complete frame, including its length, or undefined if it is incomplete. */
function frameOf(bytes: Buffer): Buffer | undefined {
  if (bytes.length < 4) return undefined;
  const length = bytes.readInt32BE(0) + 4;
  return bytes.length < length ? undefined : bytes.subarray(0, length);
}

/**
 * Returns the topic of a Produce request up to version 8, which begins with client id, transactional id, acks, time-out and
 * topics.
 */
function topicOf(frame: Buffer): string {
  const text = (at: number) => at + 2 + Math.max(frame.readInt16BE(at), 0);
  const name = text(text(12)) + 2 + 4 + 4;
  return frame.toString('utf8', name + 2, text(name));
}

export class Door {
  readonly held: (() => void)[] = [];
  readonly passages = new Set<Passage>();
  readonly appends = new Map<string, number>();
  /** Decides what happens to each append from now on. */
  onAppend: (topic: string) => Fate = () => 'pass';
  readonly #servers: Server[] = [];
  #state: 'open' | 'refuse' | 'silent' = 'open';

  /** Opens a door with one port per target, in the order of the targets. */
  static async open(targets: readonly number[]): Promise<Door> {
    const door = new Door();
    for (const target of targets) {
      const server = createServer((client) => door.#enter(client, target));
      server.listen(0, '127.0.0.1');
      await once(server, 'listening');
      door.#servers.push(server);
    }
    return door;
  }

  get ports(): number[] {
    return this.#servers.map((server) => (server.address() as { port: number }).port);
  }

  get url(): string {
    return `kafka://${this.ports.map((port) => `127.0.0.1:${port}`).join()}`;
  }

  fateOf(topic: string): Fate {
    this.appends.set(topic, (this.appends.get(topic) ?? 0) + 1);
    return this.onAppend(topic);
  }

  /** Shuts the door. `refuse` cuts every current and new connection; `silent` forwards nothing in either direction. */
  shut(how: 'refuse' | 'silent'): void {
    this.#state = how;
    for (const passage of [...this.passages])
      if (how === 'silent') passage.fallSilent();
      else passage.end();
  }

  reopen(): void {
    const wasShut = this.#state !== 'open';
    this.#state = 'open';
    if (wasShut) for (const passage of [...this.passages]) passage.end();
  }

  release(): void {
    for (const release of this.held.splice(0)) release();
  }

  async close(): Promise<void> {
    for (const passage of [...this.passages]) passage.end();
    await Promise.all(this.#servers.map((server) => new Promise((closed) => server.close(closed))));
  }

  #enter(client: Socket, target: number): void {
    if (this.#state === 'refuse') {
      client.on('error', () => undefined);
      client.destroy();
      return;
    }
    const passage = new Passage(this, client, target);
    this.passages.add(passage);
    if (this.#state === 'silent') passage.fallSilent();
  }
}
