/**
 * Connection to a client. Reads one request after another and applies all time-outs for clients. If a client pipelines
 * requests, each is read only after the previous one has been answered, so responses keep the order of the requests.
 */
import type { Socket } from 'node:net';
import type { Refusal } from '../../shared/decision/refusal.ts';
import { headerBytesMax } from '../../shared/runtime/http-server.ts';
import { mintRequestId } from '../surfaces/common/request-id.ts';
import { pathOfRefused } from './answers.ts';
import { type ConnectionEvent, type ConnectionState, connectionTransitions } from './connection-states.ts';
import { badRequest, type EarlyRefusal, largeHead, rawAnswer } from './early-refusal.ts';
import { Exchange, type ExchangeConnection } from './exchange.ts';
import type { FaultName } from './faults.ts';
import { RequestHeadReader } from './head-readers.ts';
import type { ParsedRequest } from './message-head.ts';
import { MessageReader, type MessageSink } from './message-reader.ts';
import { destroyStalledWriter } from './untaken.ts';

/** Time-outs, mostly as numbers of checks. A stall of this process counts as one check, so it cannot cause a time-out. */
export interface ConnectionBounds {
  readonly headLooks: number;
  readonly requestLooks: number;
  readonly nextLooks: number;
  readonly restLooks: number;
  /** Maximum time in ms for which a client may read nothing while its response is being sent. */
  readonly stallMs: number;
  /** Maximum time in ms for which a client may read nothing while the last bytes of an unfinished response are sent. */
  readonly lastBytesMs: number;
  readonly keepAliveSeconds: number;
}

export interface ConnectionOwner {
  readonly bounds: ConnectionBounds;
  /** Whether the listener has stopped accepting connections. */
  readonly isStopping: boolean;
  begin(exchange: Exchange): void;
  onRefusal(refused: EarlyRefusal): void;
}

/** Maximum number of bytes, and of reads, that are kept for later requests. Reading pauses when one is reached. */
const aheadBytesMax = 64 * 1024;
const aheadPiecesMax = 64;
/** Maximum number of bytes that are read and dropped if a request was answered before it was read completely. */
const restBytesMax = 64 * 1024 * 1024;

export class ClientConnection implements ExchangeConnection, MessageSink<ParsedRequest> {
  readonly #socket: Socket;
  readonly #owner: ConnectionOwner;
  readonly #reader = new MessageReader(new RequestHeadReader(headerBytesMax), this, headerBytesMax);
  #state: ConnectionState = 'waiting';
  #exchange: Exchange | undefined;
  /** Whether the exchange is new: it is handed over once all bytes that were read together with its head are parsed. */
  #isNew = false;
  #ahead: Buffer[] = [];
  #aheadBytes = 0;
  #isHeld = false;
  #isEnded = false;
  /** Number of time-out checks since the state last changed. */
  #looks = 0;
  #restBytes = 0;
  /** Bytes that are being parsed. If they are invalid, the refusal may still take its path from them. */
  #reading: Buffer | undefined;
  #isLate = false;
  /** Whether the bytes being read arrived before the previous request was answered. */
  #isAhead = false;
  #hadRequest = false;
  /** Timer that closes the connection if the client reads nothing of its response for too long. */
  #untaken: NodeJS.Timeout | undefined;

  constructor(socket: Socket, owner: ConnectionOwner) {
    this.#socket = socket;
    this.#owner = owner;
    socket.on('data', (bytes: Buffer) => this.#onData(bytes));
    socket.on('end', () => this.#onEnd());
    socket.on('drain', () => this.#onDrain());
    socket.on('close', () => this.#onClose());
  }

  get peer(): string | undefined {
    return this.#socket.remoteAddress;
  }

  get isEnding(): boolean {
    return this.#owner.isStopping || this.#isEnded;
  }

  get keepAliveSeconds(): number {
    return this.#owner.bounds.keepAliveSeconds;
  }

  /** Whether no byte of a request has been read since the last response. */
  get isIdle(): boolean {
    return this.#state === 'waiting';
  }

  hold(): void {
    this.#isHeld = true;
    this.#socket.pause();
  }

  resumeReading(): void {
    if (!this.#isHeld) return;
    this.#isHeld = false;
    this.#socket.resume();
  }

  write(bytes: string): boolean {
    if (this.#socket.write(bytes)) return true;
    this.#expectTaken(this.#owner.bounds.stallMs);
    return false;
  }

  writeLast(head: string, body: Uint8Array | undefined): void {
    const socket = this.#socket;
    if (body === undefined) socket.write(head, this.#onHanded);
    else {
      socket.cork();
      socket.write(head);
      socket.write(body, this.#onHanded);
      socket.uncork();
    }
    if (socket.writableLength > 0) this.#expectTaken(this.#owner.bounds.stallMs);
  }

  destroySoon(): void {
    this.#expectTaken(this.#owner.bounds.lastBytesMs);
    this.#socket.destroySoon();
  }

  destroy(): void {
    this.#socket.destroy();
  }

  /** Ends the current request. If its response has not begun, the request is refused. */
  cutOff(refusal: Refusal): void {
    this.#exchange?.cutOff(refusal);
  }

  /** Checks whether a time-out has passed. Called every few seconds. */
  look(): void {
    const { bounds } = this.#owner;
    this.#looks++;
    switch (this.#state) {
      case 'waiting':
        if (this.#looks <= (this.#hadRequest ? bounds.nextLooks : bounds.headLooks)) return;
        if (this.#hadRequest) this.destroy();
        else this.#refuse(badRequest());
        return;
      case 'reading':
        if (this.#looks <= (this.#exchange === undefined ? bounds.headLooks : bounds.requestLooks)) return;
        this.#isLate = true;
        this.#refuse(badRequest());
        return;
      case 'discarding':
      case 'closing':
        if (this.#looks > bounds.restLooks) this.destroy();
        return;
      case 'answering':
      case 'closed':
    }
  }

  onHead(head: ParsedRequest): void {
    this.#exchange = new Exchange(this, head);
    this.#isNew = true;
  }

  onPiece(piece: Buffer): void {
    if (this.#state === 'discarding') {
      this.#restBytes += piece.length;
      if (this.#restBytes > restBytesMax) this.destroy();
    } else this.#exchange?.onPiece(piece);
  }

  onEnd(): void {
    const exchange = this.#exchange;
    this.#step('whole');
    if (this.#state === 'waiting') this.#rest();
    else exchange?.onWhole();
  }

  onFault(fault: FaultName, unseen: ParsedRequest | undefined): void {
    if (unseen !== undefined) {
      const exchange = new Exchange(this, unseen);
      if (exchange.fault !== undefined) {
        this.#exchange = exchange;
        this.#isNew = true;
        return;
      }
    }
    this.#refuse(fault === 'large head' ? largeHead() : badRequest());
  }

  #expectTaken(ms: number): void {
    clearInterval(this.#untaken);
    this.#untaken = destroyStalledWriter(this.#socket, ms);
  }

  #step(event: ConnectionEvent): void {
    const next = connectionTransitions[this.#state][event];
    if (next === undefined) return;
    this.#state = next;
    this.#looks = 0;
  }

  #onData(bytes: Buffer): void {
    if (this.#state === 'answering' || this.#ahead.length > 0) this.#keepAhead(bytes);
    else this.#read(bytes);
  }

  #keepAhead(bytes: Buffer): void {
    this.#ahead.push(bytes);
    this.#aheadBytes += bytes.length;
    if (this.#aheadBytes >= aheadBytesMax || this.#ahead.length >= aheadPiecesMax) this.hold();
  }

  #read(bytes: Buffer): void {
    if (this.#state === 'closing' || this.#state === 'closed') return;
    if (this.#reader.state === 'broken') return;
    this.#step('begun');
    this.#reading = bytes;
    const used = this.#reader.read(bytes);
    this.#reading = undefined;
    if (used < bytes.length) this.#keepAhead(bytes.subarray(used));
    if (this.#isNew) this.#begin();
    else if (this.#state === 'waiting') this.#next();
    if (this.#exchange?.isUnasked === true) this.hold();
  }

  #begin(): void {
    const exchange = this.#exchange;
    this.#isNew = false;
    this.#hadRequest = true;
    if (exchange !== undefined) this.#owner.begin(exchange);
  }

  /** Prepares the connection for the next request. */
  #rest(): void {
    this.#exchange = undefined;
    this.#looks = 0;
  }

  /** Reads the next request if some of its bytes have arrived already. */
  #next(): void {
    if (this.#ahead.length === 0) {
      if (this.isEnding) this.destroySoon();
      else this.resumeReading();
      return;
    }
    const bytes = this.#ahead.length === 1 ? (this.#ahead[0] as Buffer) : Buffer.concat(this.#ahead);
    this.#ahead = [];
    this.#aheadBytes = 0;
    this.resumeReading();
    this.#isAhead = true;
    this.#read(bytes);
    this.#isAhead = false;
  }

  /** Called when the kernel has accepted the last byte of a response. All responses share this function. */
  readonly #onHanded = (error?: Error | null): void => {
    const exchange = this.#exchange;
    if (error || this.#socket.destroyed || exchange === undefined) return;
    clearInterval(this.#untaken);
    const isLast = exchange.isLast;
    this.#step(isLast ? 'answered-last' : 'answered');
    exchange.onHanded();
    if (isLast) {
      this.#exchange = undefined;
      this.#end();
    } else if (this.#state === 'discarding') {
      this.#restBytes = 0;
      exchange.discardBody();
      this.resumeReading();
    } else {
      this.#rest();
      this.#next();
    }
  };

  #end(): void {
    this.#ahead = [];
    this.#isHeld = false;
    this.#socket.end();
    // Read and drop the rest of the request. Otherwise, the client might never read the response.
    this.#socket.resume();
  }

  #onDrain(): void {
    clearInterval(this.#untaken);
    this.#exchange?.onDrained();
  }

  /** Handles a half-close by the client, which will send nothing more. If it awaits a response, it counts as gone. */
  #onEnd(): void {
    this.#isEnded = true;
    if (this.#state === 'answering') {
      this.destroy();
      return;
    }
    this.#reader.close();
    if (this.#isNew) this.#begin();
    if (this.#state === 'waiting' || this.#state === 'discarding') this.#socket.end();
  }

  #onClose(): void {
    clearInterval(this.#untaken);
    this.#step('closed');
    this.#reader.abandon();
    this.#ahead = [];
    this.#exchange?.onClose();
    this.#exchange = undefined;
  }

  /**
   * Refuses bytes that are not a valid request. If a response has begun, or was pending when the bytes arrived, only closes
   * the connection, because the client could mistake the refusal for the response to another request.
   */
  #refuse(refusal: Refusal): void {
    const isAnswered = this.#state === 'discarding' || this.#exchange?.startedMs !== undefined;
    this.#reader.abandon();
    this.#step('refused');
    if (isAnswered || this.#isAhead || !this.#socket.writable) {
      this.destroySoon();
      return;
    }
    const refused = { requestId: mintRequestId(), refusal };
    // The exchange will get no response, so let its handler believe that the client is gone.
    this.#exchange?.onClose();
    this.#exchange = undefined;
    const path = pathOfRefused(this.#isLate ? undefined : this.#reading);
    this.#socket.write(rawAnswer(refused, path));
    this.#end();
    this.#owner.onRefusal(refused);
  }
}
