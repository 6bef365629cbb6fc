/**
 * WebSocket connection to a node's agent. It limits the rate of the agent's frames and detects silence. An agent is untrusted
 * even with a valid token: a frame that breaks the protocol, or too many frames, end the session.
 */
import {
  type AgentMessage,
  agentMessageSchema,
  type Beat,
  type ControlPlaneMessage,
  closeCodes,
  parseFrame,
} from '../../schemas/records/node-messages.ts';
import { perProcess } from '../../shared/runtime/per-process.ts';
import { RateLimit } from '../../shared/runtime/rate-limit.ts';
import { Ticker, type Timed } from '../../shared/runtime/ticker.ts';

/** The part of a WebSocket that a connection uses. */
export interface AgentSocket {
  readonly bufferedAmount: number;
  send(text: string): void;
  close(code: number, reason: string): void;
  terminate(): void;
  pause(): void;
  on(event: 'message', listener: (data: unknown, isBinary: boolean) => void): unknown;
  on(event: 'ping' | 'pong' | 'close', listener: () => void): AgentSocket;
  on(event: 'error', listener: (error: Error) => void): unknown;
}

/** Node and token that the agent's upgrade request proved. */
export interface AgentAdmission {
  readonly node: string;
  readonly token: string;
}

export type EndCause =
  /** The other side closed the socket, or the network failed. */
  | 'lost'
  /** The agent missed three heartbeats. */
  | 'silent'
  /** The agent sent a frame that breaks the protocol, or too many frames. */
  | 'protocol'
  /** This side ended the connection by calling `dismiss`. */
  | 'dismissed';

interface ConnectionHandlers {
  onHeartbeat(heartbeat: Beat): void;
  onLeaving(): void;
  /** Called exactly once, when the connection ends. */
  onEnd(cause: EndCause): void;
}

/** Rate limit for all of an agent's frames together. A well-behaved agent sends one heartbeat and one ping per second. */
const framesSize = { burst: 20, perSecond: 5 };
/** Number of unsent bytes above which the agent counts as no longer reading. */
const bufferedBytesMax = 2 * 1024 * 1024;
/** Time in ms from sending the close frame to terminating the socket. */
const closeGraceMs = 1000;
/** Timer that checks all agents for silence. */
const ticker = perProcess(() => new Ticker(250));

export class AgentConnection implements Timed {
  index = -1;
  readonly admission: AgentAdmission;
  readonly #socket: AgentSocket;
  readonly #handlers: ConnectionHandlers;
  readonly #frames = new RateLimit(framesSize);
  readonly #silenceMsMax: number;
  #silentAtMs: number;
  #hasHello = false;
  #ended = false;

  constructor(
    socket: AgentSocket,
    admission: AgentAdmission,
    silenceMsMax: number,
    handlers: ConnectionHandlers,
  ) {
    this.admission = admission;
    this.#socket = socket;
    this.#handlers = handlers;
    this.#silenceMsMax = silenceMsMax;
    ticker().add(this);
    this.#silentAtMs = ticker().nowMs + silenceMsMax;
    socket.on('message', (data, isBinary) => this.#onFrame(data, isBinary));
    socket.on('ping', () => this.#count()).on('pong', () => this.#count());
    socket.on('error', () => undefined);
    socket.on('close', () => this.#end('lost'));
  }

  tick(nowMs: number): void {
    if (nowMs >= this.#silentAtMs) this.#fail('silent', 'no beat in time');
  }

  /** Sends a message unless the connection has ended. If the agent does not read, ends the connection instead. */
  send(message: ControlPlaneMessage): void {
    if (this.#ended) return;
    if (this.#socket.bufferedAmount > bufferedBytesMax) this.#fail('protocol', 'frames are not read');
    else this.#socket.send(JSON.stringify(message));
  }

  /** Ends the connection from this side. The agent logs `reason`. */
  dismiss(code: number, reason: string): void {
    if (this.#ended) return;
    this.#end('dismissed');
    this.#close(code, reason);
  }

  #onFrame(data: unknown, isBinary: boolean): void {
    if (!this.#count() || this.#ended) return;
    const message = isBinary ? undefined : parseFrame(agentMessageSchema, String(data));
    const fault = message === undefined ? 'a frame is not of this protocol' : this.#orderFault(message);
    if (fault !== undefined) {
      this.#fail('protocol', fault);
    } else if (message?.type === 'beat') {
      this.#silentAtMs = ticker().nowMs + this.#silenceMsMax;
      this.#handlers.onHeartbeat(message);
    } else if (message?.type === 'leaving') {
      this.#handlers.onLeaving();
    }
  }

  /** Checks that `hello` comes first and only once, and that it names the node of the token. */
  #orderFault(message: AgentMessage): string | undefined {
    if (message.type !== 'hello') return this.#hasHello ? undefined : 'hello comes first';
    if (this.#hasHello) return 'hello comes once';
    if (message.node !== this.admission.node) return 'the token is bound to another node';
    this.#hasHello = true;
    return undefined;
  }

  #count(): boolean {
    if (this.#frames.tryAcquire()) return true;
    // Stops reading, because each frame of a flood costs time, and the flood continues until the socket is closed.
    this.#socket.pause();
    this.#fail('protocol', 'too many frames');
    return false;
  }

  #fail(cause: EndCause, reason: string): void {
    if (this.#ended) return;
    this.#end(cause);
    this.#close(closeCodes.protocol, reason);
  }

  #end(cause: EndCause): void {
    if (this.#ended) return;
    this.#ended = true;
    ticker().delete(this);
    this.#handlers.onEnd(cause);
  }

  #close(code: number, reason: string): void {
    this.#socket.close(code, reason);
    const timer = setTimeout(() => this.#socket.terminate(), closeGraceMs);
    this.#socket.on('close', () => clearTimeout(timer));
  }
}
