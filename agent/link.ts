/**
 * Keeps one WebSocket connection to one control plane. It sends a hello and then a heartbeat every second, and receives the
 * list of installed models. If a session ends, the link reconnects to the same replica, or to the next one if the replica
 * failed. Once all replicas have failed, it pauses between attempts for random, increasing times. It abandons a replica that
 * has not answered pings for three seconds.
 */
import WebSocket from 'ws';
import {
  type AgentMessage,
  type Beat,
  closeCodes,
  controlPlaneMessageSchema,
  heartbeatIntervalMs,
  heartbeatsMissedMax,
  nodeConnectPath,
  nodeFrameBytesMax,
  nodeProtocol,
  parseFrame,
} from '../schemas/records/node-messages.ts';
import type { Logger } from '../shared/runtime/logger.ts';
import { type Clock, systemClock, within } from '../shared/runtime/retry.ts';
import { readUpgradeError } from './upgrade-error.ts';

export interface LinkOptions {
  /** Base URLs of the control planes, with http or https. */
  readonly controlPlanes: readonly string[];
  readonly node: string;
  readonly token: string;
  /** Returns the current state of the node. Called for every heartbeat. */
  readonly heartbeat: () => Beat;
  readonly onInstalls: (position: number, models: readonly string[]) => void;
  readonly logger: Logger;
  /** Interval in ms between two heartbeats and between two pings. The protocol defines the default. */
  readonly heartbeatMs?: number;
  /** Clock that measures the pauses before reconnecting. */
  readonly clock?: Clock;
}

/** Result of a session that has ended. It determines which replica the link connects to next. */
interface SessionEnd {
  /** Whether the session lasted long enough to show that the replica accepts this agent. */
  readonly lasted: boolean;
  /** Whether the replica was abandoned because it did not answer pings. */
  readonly silent: boolean;
  readonly code: number;
  readonly reason: string;
}

const handshakeMsMax = 3000;
const pauseMsMin = 200;
const pauseMsMax = 3000;
/** Longest pause in ms before reconnecting if an operator must fix the cause, or if another agent uses the same token. */
const refusedPauseMsMax = 30_000;
const lastedMsMin = 3000;
const releasedMsMax = 5000;
const closeMsMax = 1000;
/** Maximum random pause in ms before reconnecting, so that the agents of a failed replica do not all reconnect at once. */
const spreadMs = 500;
const unauthorisedStatus = 401;

export class ControlPlaneLink {
  readonly #options: LinkOptions;
  readonly #clock: Clock;
  readonly #stop = new AbortController();
  readonly #urls: readonly string[];
  #urlIndex: number;
  #socket: WebSocket | undefined;
  #running: Promise<void> | undefined;
  #released: (() => void) | undefined;
  #connects = 0;

  constructor(options: LinkOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.#urls = options.controlPlanes.map((url) => url.replace(/^http/, 'ws').replace(/\/+$/, ''));
    if (this.#urls.length === 0) throw new Error('an agent needs the address of a control plane');
    // The node's name determines the first replica, so the choice is stable across restarts and nodes are spread evenly.
    this.#urlIndex = hashText(options.node) % this.#urls.length;
  }

  get connected(): boolean {
    return this.#socket?.readyState === WebSocket.OPEN;
  }
  /** Number of sessions opened so far. */
  get connects(): number {
    return this.#connects;
  }

  start(): void {
    this.#running = this.#run();
  }

  /** Sends the current state now instead of waiting for the next interval. */
  sendHeartbeat(): void {
    this.#send(this.#options.heartbeat());
  }

  /** Announces that the agent is leaving, and waits up to five seconds until the log contains the announcement. */
  async leave(): Promise<void> {
    if (!this.connected) return;
    const released = new Promise<void>((resolve) => {
      this.#released = resolve;
    });
    this.#send({ type: 'leaving' });
    await within(released, releasedMsMax);
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    const socket = this.#socket;
    socket?.close(1000, 'the agent ends');
    const timer = setTimeout(() => socket?.terminate(), closeMsMax);
    await this.#running;
    clearTimeout(timer);
  }

  async #run(): Promise<void> {
    const { logger, node } = this.#options;
    const { signal } = this.#stop;
    let failures = 0;
    while (!signal.aborted) {
      const url = this.#urls[this.#urlIndex] ?? '';
      const ended = await this.#session(url);
      if (signal.aborted) return;
      const { code, reason, lasted, silent } = ended;
      failures = lasted ? 0 : failures + 1;
      const fields = { node, url, code, reason };
      if (failures % this.#urls.length === 0) logger.warn(fields, 'not attached to a control plane');
      else logger.debug(fields, 'not attached to this control plane; trying the next one');
      const isSameReplica = lasted && !silent && code !== closeCodes.goingAway;
      if (!isSameReplica) this.#urlIndex = (this.#urlIndex + 1) % this.#urls.length;
      await this.#clock.sleep(this.#pauseMs(failures, ended), signal);
    }
  }

  #pauseMs(failures: number, { lasted, code }: SessionEnd): number {
    const rounds = Math.floor(failures / this.#urls.length);
    if (lasted || rounds === 0) return this.#clock.random() * spreadMs;
    const refused =
      code === unauthorisedStatus || code === closeCodes.refused || code === closeCodes.superseded;
    const max = Math.min(refused ? refusedPauseMsMax : pauseMsMax, pauseMsMin * 2 ** Math.min(rounds, 20));
    return max * (0.5 + this.#clock.random() / 2);
  }

  #session(url: string): Promise<SessionEnd> {
    const { token, heartbeatMs = heartbeatIntervalMs } = this.#options;
    const socket = new WebSocket(url + nodeConnectPath, {
      headers: { authorization: `Bearer ${token}` },
      handshakeTimeout: handshakeMsMax,
      maxPayload: nodeFrameBytesMax,
      perMessageDeflate: false,
    });
    this.#socket = socket;
    return new Promise((resolve) => {
      let openedMs = Number.POSITIVE_INFINITY;
      let fault: { code: number; reason: string } | undefined;
      const heartbeat = new Heartbeat(socket, heartbeatMs, () => this.sendHeartbeat());
      socket.on('unexpected-response', async (_request, response) => {
        const code = response.statusCode ?? 0;
        fault = { code, reason: `refused with ${code}` };
        fault = { code, reason: await readUpgradeError(response) };
        socket.terminate();
      });
      socket.on('open', () => {
        openedMs = performance.now();
        this.#connects++;
        this.#send({ type: 'hello', v: nodeProtocol, node: this.#options.node });
        heartbeat.start();
      });
      socket.on('message', (data, isBinary) => this.#receive(isBinary ? '' : String(data)));
      socket.on('error', (error) => {
        fault ??= { code: 0, reason: 'code' in error ? String(error.code) : 'no connection' };
      });
      socket.on('close', (code, reason) => {
        heartbeat.stop();
        const lasted = performance.now() - openedMs > lastedMsMin;
        const { silent } = heartbeat;
        const closed = { code, reason: silent ? 'it does not answer pings' : String(reason) };
        resolve({ lasted, silent, ...(fault ?? closed) });
      });
    });
  }

  #receive(text: string): void {
    const message = parseFrame(controlPlaneMessageSchema, text);
    if (message?.type === 'installs') this.#options.onInstalls(message.position, message.models);
    else if (message?.type === 'released') this.#released?.();
  }

  #send(message: AgentMessage): void {
    if (this.connected) this.#socket?.send(JSON.stringify(message));
  }
}

/** Sends heartbeats and pings while a socket is open. Terminates the socket if pings are not answered. */
class Heartbeat {
  readonly #socket: WebSocket;
  readonly #intervalMs: number;
  readonly #send: () => void;
  #timer: NodeJS.Timeout | undefined;
  /** Number of pings sent since the last pong. */
  #unanswered = 0;
  #silent = false;

  constructor(socket: WebSocket, intervalMs: number, send: () => void) {
    this.#socket = socket;
    this.#intervalMs = intervalMs;
    this.#send = send;
    socket.on('pong', () => {
      this.#unanswered = 0;
    });
  }

  /** Whether the socket was terminated because pings were not answered. */
  get silent(): boolean {
    return this.#silent;
  }

  start(): void {
    this.#timer = setInterval(() => this.#tick(), this.#intervalMs);
    this.#send();
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  #tick(): void {
    // Counts pings instead of measuring time, so that a stall of this process counts as one unanswered ping.
    if (this.#unanswered >= heartbeatsMissedMax) {
      this.#silent = true;
      this.#socket.terminate();
      return;
    }
    this.#send();
    this.#unanswered++;
    this.#socket.ping();
  }
}

function hashText(text: string): number {
  let hash = 0;
  for (const character of text) hash = (hash * 31 + (character.codePointAt(0) ?? 0)) >>> 0;
  return hash;
}
