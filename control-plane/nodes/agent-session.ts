/**
 * One WebSocket of a node's agent: reads its frames, bounds them, and knows when it has fallen silent.
 * The agent is untrusted beyond its token: a frame that breaks the protocol, or too many of them, end the session.
 * What a beat means for the node is decided by agent-sessions.ts.
 */
import {
  type AgentMessage,
  agentMessageSchema,
  type Beat,
  beatIntervalMs,
  beatsMissedMax,
  type ControlPlaneMessage,
  closeCodes,
  parseFrame,
} from '../../schemas/node-messages.ts';
import { Bucket } from './bucket.ts';

/** As much of a WebSocket as a session needs. */
export interface AgentSocket {
  readonly bufferedAmount: number;
  send(text: string): void;
  close(code: number, reason: string): void;
  terminate(): void;
  on(event: 'message', listener: (data: unknown, isBinary: boolean) => void): unknown;
  on(event: 'ping' | 'close', listener: () => void): unknown;
  on(event: 'error', listener: (error: Error) => void): unknown;
}

/** What an upgrade's token proved. */
export interface Admission {
  readonly node: string;
  readonly token: string;
}

/** Why a session is over. */
export type EndCause =
  /** The socket was closed or torn from the other side. */
  | 'lost'
  /** Three beats were missed. */
  | 'silent'
  /** A frame broke the protocol, or there were too many. */
  | 'protocol'
  /** Ended from this side; `dismiss` said why. */
  | 'dismissed';

export interface SessionHandlers {
  onBeat(beat: Beat): void;
  onLeaving(): void;
  /** Called once. */
  onEnd(cause: EndCause): void;
}

/** Frames, pings among them: a beat a second and a ping leave room for a little more. */
const framesSize = { burst: 20, perSecond: 5 };
const silenceMsMax = beatIntervalMs * beatsMissedMax;
/** An agent that does not read what it is sent. */
const bufferedBytesMax = 2 * 1024 * 1024;
/** Between our close frame and the end of the socket. */
const closeGraceMs = 1000;

export class AgentSession {
  readonly admission: Admission;
  readonly #socket: AgentSocket;
  readonly #handlers: SessionHandlers;
  readonly #frames = new Bucket(framesSize);
  readonly #silence: NodeJS.Timeout;
  #greeted = false;
  #ended = false;

  constructor(socket: AgentSocket, admission: Admission, handlers: SessionHandlers) {
    this.admission = admission;
    this.#socket = socket;
    this.#handlers = handlers;
    this.#silence = setTimeout(() => this.#fail('silent', 'no beat in time'), silenceMsMax);
    socket.on('message', (data, isBinary) => this.#take(data, isBinary));
    socket.on('ping', () => this.#count());
    socket.on('error', () => undefined);
    socket.on('close', () => this.#end('lost'));
  }

  /** Sends unless the session is over or the agent has stopped reading. */
  send(message: ControlPlaneMessage): void {
    if (this.#ended) return;
    if (this.#socket.bufferedAmount > bufferedBytesMax) this.#fail('protocol', 'frames are not read');
    else this.#socket.send(JSON.stringify(message));
  }

  /** Ends it from this side; `reason` is for the agent's log. */
  dismiss(code: number, reason: string): void {
    if (this.#ended) return;
    this.#end('dismissed');
    this.#close(code, reason);
  }

  #take(data: unknown, isBinary: boolean): void {
    if (this.#ended || !this.#count()) return;
    const message = isBinary ? undefined : parseFrame(agentMessageSchema, String(data));
    const fault = message === undefined ? 'a frame is not of this protocol' : this.#order(message);
    if (fault !== undefined) {
      this.#fail('protocol', fault);
    } else if (message?.type === 'beat') {
      this.#silence.refresh();
      this.#handlers.onBeat(message);
    } else if (message?.type === 'leaving') {
      this.#handlers.onLeaving();
    }
  }

  /** A hello comes first and once, and names the node to which the token is bound. */
  #order(message: AgentMessage): string | undefined {
    if (message.type !== 'hello') return this.#greeted ? undefined : 'hello comes first';
    if (this.#greeted) return 'hello comes once';
    if (message.node !== this.admission.node) return 'the token is bound to another node';
    this.#greeted = true;
    return undefined;
  }

  #count(): boolean {
    if (this.#frames.take()) return true;
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
    clearTimeout(this.#silence);
    this.#handlers.onEnd(cause);
  }

  #close(code: number, reason: string): void {
    this.#socket.close(code, reason);
    const timer = setTimeout(() => this.#socket.terminate(), closeGraceMs);
    this.#socket.on('close', () => clearTimeout(timer));
  }
}
