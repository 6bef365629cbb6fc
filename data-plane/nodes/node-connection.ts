/**
 * HTTP connection to a node, which carries one call at a time. Each call receives the parts of its response in order and
 * exactly one end, but nothing after an abort. All connections read into one shared buffer, so a callback must not keep a
 * part.
 */
import type { Socket } from 'node:net';
import type { FaultName } from '../http/faults.ts';
import { AnswerHeadReader } from '../http/head-readers.ts';
import type { ParsedAnswer } from '../http/message-head.ts';
import { MessageReader, type MessageSink } from '../http/message-reader.ts';
import { BodyPieces } from './body-pieces.ts';
import {
  type NodeConnectionEvent,
  type NodeConnectionState,
  nodeConnectionTransitions,
} from './node-connection-states.ts';
import { type WireCall, type WireController, WireFault, type WireRequest } from './wire-call.ts';

export interface NodeConnectionOwner {
  /** Header lines that every request to this node contains. */
  readonly fields: string;
  readonly keepAliveMs: number;
  onOpened(): void;
  /** Called when bytes have arrived. The owner must then call `readUnread`, in this turn of the event loop or a later one. */
  onUnread(connection: NodeConnection): void;
  /** Called when the connection has completed a response and is idle. */
  onRest(connection: NodeConnection): void;
  onClosed(connection: NodeConnection, wasOpen: boolean): void;
}

const headBytesMax = 16 * 1024;
/** Time in ms subtracted from the idle time that the node announces, because the node's idle time begins earlier. */
const hintReserveMs = 2000;

export class NodeConnection implements WireController, MessageSink<ParsedAnswer> {
  /** Number of the owner's sweep over idle connections after which this connection became idle. */
  restedAt = 0;
  /** Longest time in ms that the connection may stay idle. */
  restMs: number;
  readonly #socket: Socket;
  readonly #owner: NodeConnectionOwner;
  readonly #reader = new MessageReader(new AnswerHeadReader(headBytesMax), this, headBytesMax);
  #state: NodeConnectionState = 'opening';
  #call: WireCall | undefined;
  /** Request that has not been written yet. */
  #request: WireRequest | undefined;
  #rest: BodyPieces | undefined;
  /** Bytes from the node that have arrived but must wait, because other nodes' bytes are read first. */
  #unread: Buffer | undefined;
  /** Whether the connection must close after the current request. */
  #isLast = false;
  #isInterim = false;
  #isAnswered = false;
  #isPaused = false;
  /** Whether the current request reuses an idle connection and no byte of its response has arrived. */
  #isUnanswered = false;
  #wasOpen = false;

  constructor(socket: Socket, owner: NodeConnectionOwner) {
    this.#socket = socket;
    this.#owner = owner;
    this.restMs = owner.keepAliveMs;
    socket.on('drain', () => this.#pour());
    socket.on('end', () => this.#onPeerEnd());
    socket.on('error', (error) => this.#hangUp(error));
    socket.on('close', () => this.#onClose());
  }

  get state(): NodeConnectionState {
    return this.#state;
  }

  /** Sends the request as soon as the connection is open. */
  take(request: WireRequest, call: WireCall): void {
    this.#call = call;
    this.#request = request;
    this.#isLast = request.isLast;
    this.#isAnswered = false;
    this.#isPaused = false;
    this.#isUnanswered = this.#state === 'resting';
    if (!this.#isUnanswered) return;
    this.#step('taken');
    this.#send();
  }

  onOpened(): void {
    if (this.#state !== 'opening') return;
    this.#wasOpen = true;
    this.#owner.onOpened();
    this.#step('opened');
    this.#send();
  }

  /** Called with the bytes of each read from the socket. */
  onBytes(bytes: Buffer): void {
    // No call awaits these bytes. The next request on this connection must not receive them as its response.
    if (this.#state === 'resting' || this.#state === 'opening') {
      this.#lose(strayBytes());
      return;
    }
    // With TLS, further bytes may arrive although the socket is paused.
    if (this.#unread !== undefined) {
      this.#unread = Buffer.concat([this.#unread, bytes]);
      return;
    }
    this.#unread = bytes;
    this.#owner.onUnread(this);
    if (this.#unread === undefined) return;
    // Copy the bytes, because the next connection to read uses the same buffer.
    this.#unread = Buffer.from(bytes);
    this.#socket.pause();
  }

  readUnread(): void {
    const bytes = this.#unread;
    this.#unread = undefined;
    if (bytes === undefined || this.#state === 'closed') return;
    this.#take(bytes);
    if (!this.#isPaused && this.#isOpen && this.#socket.isPaused()) this.#socket.resume();
  }

  #take(bytes: Buffer): void {
    this.#isUnanswered = false;
    try {
      this.#read(bytes);
    } catch (error) {
      // A bug in this program made reading the response fail, which must not stop the process.
      this.#lose(error instanceof Error ? error : new Error(String(error)));
    }
  }

  pause(): void {
    this.#isPaused = true;
    this.#socket.pause();
  }

  resume(): void {
    this.#isPaused = false;
    if (this.#isAnswered) this.#finish();
    else if (this.#unread === undefined) this.#socket.resume();
  }

  abort(): void {
    this.#call = undefined;
    this.#lose(undefined);
  }

  /** Closes the connection. A call that is in progress fails. */
  end(): void {
    this.#lose(new WireFault('this gateway closed its connection to the node'));
  }

  onHead(head: ParsedAnswer): void {
    const { status } = head;
    this.#isInterim = head.isInterim;
    if (!this.#isInterim) {
      if (head.isLast) this.#isLast = true;
      this.restMs = keepAliveRest(head, this.#owner.keepAliveMs);
      if (this.restMs <= 0) this.#isLast = true;
      this.#step('head');
    }
    this.#call?.onResponseStart(status, readField(head, 'content-type'));
  }

  onPiece(piece: Buffer): void {
    this.#call?.onResponseData(piece);
  }

  onEnd(): void {
    if (!this.#isInterim) this.#isAnswered = true;
  }

  onFault(fault: FaultName): void {
    const reason =
      fault === 'cut short'
        ? 'the node ended the connection within its answer'
        : `the node's answer is not valid HTTP: ${fault}`;
    this.#lose(new WireFault(reason));
  }

  #step(event: NodeConnectionEvent): NodeConnectionState {
    this.#state = nodeConnectionTransitions[this.#state][event] ?? 'closed';
    return this.#state;
  }

  #send(): void {
    const request = this.#request;
    this.#request = undefined;
    this.#call?.onRequestStart(this);
    // `onRequestStart` may have aborted the call.
    if (request === undefined || this.#state !== 'sending') return;
    this.#write(this.#formatHead(request), request.body);
  }

  #write(head: string, body: string | BodyPieces): void {
    if (body instanceof BodyPieces) {
      this.#rest = body;
      if (this.#socket.write(`${head}\r\n`, 'latin1')) this.#pour();
      return;
    }
    const bytes = Buffer.byteLength(body);
    this.#step('sent');
    const text = `${head}content-length: ${bytes}\r\n\r\n${body}`;
    this.#socket.write(text, bytes === body.length ? 'latin1' : 'utf8');
  }

  #formatHead({ path, headers, isLast }: WireRequest): string {
    const connection = isLast ? 'connection: close\r\n' : 'connection: keep-alive\r\n';
    let head = `POST ${path} HTTP/1.1\r\n${this.#owner.fields}${connection}`;
    for (let i = 0; i < headers.length; i += 2) head += `${headers[i]}: ${headers[i + 1]}\r\n`;
    return head;
  }

  /** Writes pieces of a large body until the connection accepts no more for now. */
  #pour(): void {
    const body = this.#rest;
    if (body === undefined) return;
    for (;;) {
      const piece = body.take();
      if (piece === undefined) break;
      if (!this.#socket.write(piece)) return;
    }
    this.#rest = undefined;
    this.#step('sent');
  }

  #read(bytes: Buffer): void {
    let at = 0;
    // This runs more than once only if interim responses (1xx) precede the response.
    while (at < bytes.length && this.#isOpen && !this.#isAnswered)
      at += this.#reader.read(bytes.subarray(at));
    if (!this.#isAnswered || !this.#isOpen) return;
    // The node sent more than the response, so the connection cannot be trusted for another request.
    if (at < bytes.length) this.#isLast = true;
    if (!this.#isPaused) this.#finish();
  }

  get #isOpen(): boolean {
    return this.#state !== 'closed';
  }

  /** Ends a call whose response is complete. */
  #finish(): void {
    const call = this.#call;
    this.#call = undefined;
    this.#isAnswered = false;
    this.#isPaused = false;
    // If the request was not sent completely, the node might take the remaining bytes for the start of the next request.
    if (this.#socket.writableLength > 0 || this.#unread !== undefined) this.#isLast = true;
    const state = this.#step(this.#isLast ? 'end-last' : 'end');
    if (state === 'resting') {
      this.#socket.resume();
      this.#owner.onRest(this);
    } else this.#destroy();
    call?.onResponseEnd();
  }

  /** Handles a half-close: the node will send nothing more. */
  #onPeerEnd(): void {
    this.readUnread();
    if (!this.#isOpen) return;
    this.#isLast = true;
    if (this.#isAnswered) return;
    try {
      this.#reader.close();
      if (this.#isAnswered) {
        if (!this.#isPaused) this.#finish();
      } else this.#hangUp(new WireFault('the node ended the connection before its answer'));
    } catch (error) {
      this.#lose(error instanceof Error ? error : new Error(String(error)));
    }
  }

  #onClose(): void {
    this.readUnread();
    if (this.#isAnswered) this.#isLast = true;
    else this.#hangUp(new WireFault('the connection to the node was lost'));
    this.#owner.onClosed(this, this.#wasOpen);
  }

  /** Cleans up after the node has closed the connection or the network has dropped it. */
  #hangUp(error: Error): void {
    const call = this.#call;
    if (!this.#isUnanswered) this.#lose(error);
    else {
      this.#lose(undefined);
      call?.onUnanswered(error);
    }
  }

  #lose(error: Error | undefined): void {
    if (!this.#isOpen) return;
    const call = this.#call;
    this.#call = undefined;
    this.#step('lost');
    this.#destroy();
    if (error !== undefined) call?.onResponseError(error);
  }

  #destroy(): void {
    this.#request = undefined;
    this.#unread = undefined;
    this.#rest?.drop();
    this.#rest = undefined;
    this.#socket.destroy();
  }
}

function strayBytes(): WireFault {
  return new WireFault('the node sent an unrequested answer');
}

/** Value of a header field, or an empty string if the response has no such field or more than one. */
function readField({ rawHeaders }: ParsedAnswer, name: string): string {
  let found: string | undefined;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const field = rawHeaders[i] as string;
    if (field.length !== name.length || field.toLowerCase() !== name) continue;
    if (found !== undefined) return '';
    found = rawHeaders[i + 1];
  }
  return found ?? '';
}

/** Longest time in ms that the connection may stay idle. The node's `keep-alive` header can shorten it. */
function keepAliveRest(head: ParsedAnswer, keepAliveMs: number): number {
  const field = readField(head, 'keep-alive');
  if (field === '') return keepAliveMs;
  const seconds = /(?:^|[\s,])timeout\s*=\s*(\d{1,6})/i.exec(field)?.[1];
  return seconds === undefined ? keepAliveMs : Math.min(keepAliveMs, Number(seconds) * 1000 - hintReserveMs);
}
