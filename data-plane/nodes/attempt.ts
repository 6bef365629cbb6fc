/**
 * An attempt to get a response from one node. Holds the state that the call to the node, the converter and the client's
 * response share. attempt-states.ts contains its state diagram. The converters know neither the node nor the client.
 */

import { Refusal } from '../../shared/decision/refusal.ts';
import type { MemoryBudget } from '../../shared/runtime/byte-budget.ts';
import type { Timed } from '../../shared/runtime/ticker.ts';
import { eventStreamType, jsonType } from '../http/answers.ts';
import type { AnswerListener, ClientAnswer, Fields } from '../http/exchange.ts';
import { parseError } from '../surfaces/common/answer-json.ts';
import { UnheldAnswer } from '../surfaces/common/memory-refusal.ts';
import { NodeFailure, type NodeFailureKind } from '../surfaces/common/node-failure.ts';
import { SseReader } from '../surfaces/common/sse-reader.ts';
import type { SurfaceStream } from '../surfaces/common/surface-stream.ts';
import type { Usage } from '../surfaces/common/usage.ts';
import { type AttemptEvent, type AttemptState, type Next, transitions } from './attempt-states.ts';
import { ByteCollector, isEventStreamType, isJsonType } from './byte-collector.ts';
import type { NodeOutcome } from './load.ts';
import {
  CallFailure,
  type CallFailureKind,
  type CallReader,
  NodeCall,
  type NodeRequest,
} from './node-call.ts';
import type { NodePools } from './node-pools.ts';
import type { RebuiltAnswer, WholeAnswer } from './whole-answer.ts';

/** Limits on a node's response: times in ms and sizes. The time-out for connecting is an option of the connection pools. */
export interface AnswerBounds {
  /** Time-out for the first good event of a stream. */
  readonly firstEventMs: number;
  /** Time-out for the next data event of a stream. Comments in the stream extend the time-out, up to `firstEventMs`. */
  readonly betweenEventsMs: number;
  /** Time after which a keep-alive is sent to the client if a stream has nothing else to send. */
  readonly keepAliveMs: number;
  /** Time-out for the head of a whole response (not a stream). Its body then gets the same amount of time again. */
  readonly wholeAnswerMs: number;
  /** Time-out for the next part of a whole response's body. */
  readonly betweenBytesMs: number;
  /** Time-out for the whole body of an error response. */
  readonly errorBodyMs: number;
  /** Maximum size in bytes of a whole response's body. */
  readonly answerBytesMax: number;
}

/** Describes why a node sent no response or only a part of one. */
export interface AttemptFailure {
  /** Reason to be logged. It contains no text from the node or the client. */
  readonly reason: string;
  readonly timedOut: boolean;
  /** What the failure says about the node's health. */
  readonly outcome: Exclude<NodeOutcome, 'answered'>;
  /** HTTP status of the error that the node answered with, if any. */
  readonly status?: number;
  /** Parsed JSON of the error that the node sent. It must never be logged or shown. */
  readonly detail?: unknown;
  /** Description of an unusual form of the node's response, if that caused the failure. */
  readonly oddForm?: string;
  /** Refusal to send to the client, if the node is not the cause of the failure. */
  readonly refusal?: Refusal;
}

export type AttemptResult =
  | { readonly kind: 'completed'; readonly usage: Usage; readonly oddForm: string | undefined }
  | { readonly kind: 'client-gone'; readonly spent?: Usage }
  | { readonly kind: 'unreached'; readonly failure: AttemptFailure }
  | { readonly kind: 'failed'; readonly failure: AttemptFailure }
  | { readonly kind: 'aborted-after-start'; readonly failure: AttemptFailure; readonly spent?: Usage };

export interface AttemptOptions {
  readonly client: ClientAnswer;
  /** Header fields of the response to the client, without those that depend on the content type. */
  readonly fields: Fields;
  readonly pools: NodePools;
  /** Memory budget to which buffered parts of the response are charged. */
  readonly memory: MemoryBudget;
  readonly bounds: AnswerBounds;
  /** Converts the body of the node's response for the client. */
  readonly body: SurfaceStream | WholeAnswer;
  /** Called when the request is being sent to the node. */
  readonly onSent?: (() => void) | undefined;
  /** Called when the node has shown that it is working. A stream's head shows nothing, because engines send it early. */
  readonly onAnswer?: (() => void) | undefined;
  /** Called when the connection has accepted the whole request body, if the body was sent in pieces. */
  readonly onTaken?: (() => void) | undefined;
}

const errorBytesMax = 64 * 1024;
/** Header fields that make proxies between the gateway and the client forward each event at once. */
const streamFields: Fields = ['cache-control', 'no-cache', 'x-accel-buffering', 'no'];

export class Attempt implements CallReader, AnswerListener, Timed {
  index = -1;
  readonly #options: AttemptOptions;
  readonly #client: ClientAnswer;
  readonly #call: NodeCall;
  readonly #whole: WholeAnswer | undefined;
  readonly #stream: SurfaceStream | undefined;
  readonly #events: SseReader | undefined;
  readonly #result: Promise<AttemptResult>;
  #resolve: (result: AttemptResult) => void = () => undefined;
  #reject: (error: Error) => void = () => undefined;
  #state: AttemptState = 'connecting';
  #status = 0;
  #errorBody: ByteCollector | undefined;
  /** Time by which a whole response's body must have arrived, by the ticker's clock. */
  #wholeByMs = Number.POSITIVE_INFINITY;
  /** Times of the last event from the node and of the last frame to the client, by the ticker's clock. */
  #eventMs = 0;
  #writtenMs = 0;

  constructor(options: AttemptOptions) {
    const { client, pools, body } = options;
    this.#options = options;
    this.#client = client;
    this.#call = new NodeCall(pools.ticker, this);
    if (body.kind === 'whole') this.#whole = body;
    else {
      this.#stream = body;
      this.#events = new SseReader({
        onData: (data) => this.#onEvent(data),
        onComment: () => this.#onComment(),
        onFailure: (failure) => {
          body.fail(failure);
          this.#onStreamFailure(body);
        },
      });
    }
    this.#result = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
  }

  get state(): AttemptState {
    return this.#state;
  }

  /** Makes the attempt. Rejects only if there is a bug in this program. */
  run(request: NodeRequest): Promise<AttemptResult> {
    const { bounds, pools } = this.#options;
    if (this.#whole === undefined) this.#call.setDeadline(bounds.firstEventMs, 'a first event');
    else this.#call.setDeadline(bounds.wholeAnswerMs, 'its answer');
    this.#client.listen(this);
    this.#call.start(pools, request);
    return this.#result;
  }

  onSent(): void {
    if (this.#step('sent') !== 'ignored') this.#options.onSent?.();
  }

  onUnanswered(): void {
    this.#step('unanswered');
  }

  onTaken(): void {
    this.#options.onTaken?.();
  }

  onHead(status: number, contentType: string): void {
    const { bounds, memory, pools } = this.#options;
    this.#status = status;
    if (status === 200 && this.#whole !== undefined && isJsonType(contentType)) {
      this.#step('answer-head');
      this.#options.onAnswer?.();
      this.#wholeByMs = pools.ticker.nowMs + bounds.wholeAnswerMs;
      this.#expectMore();
    } else if (status === 200 && this.#stream !== undefined && isEventStreamType(contentType)) {
      // Keep the deadline for the first event, because the head of a stream does not show that the node is working.
      this.#step('stream-head');
      this.#writtenMs = pools.ticker.nowMs;
      pools.ticker.add(this);
    } else {
      this.#step('error-head');
      this.#options.onAnswer?.();
      this.#errorBody = new ByteCollector(memory, errorBytesMax);
      this.#call.setDeadline(bounds.errorBodyMs, 'the whole body of its error');
    }
  }

  onData(chunk: Buffer): void {
    switch (this.#step('data')) {
      case 'opening':
      case 'streaming':
      case 'blocked':
        this.#events?.push(chunk);
        break;
      case 'collecting':
        this.#collect(chunk);
        break;
      case 'error-body':
        if (this.#errorBody?.add(chunk) === false) this.#fail(this.#errorFailure(undefined));
        break;
      default:
    }
  }

  onEnd(): void {
    if (this.#errorBody !== undefined) this.#fail(this.#errorFailure(parseError(this.#errorBody.whole())));
    else if (this.#stream !== undefined) {
      this.#events?.end();
      this.#stream.end();
      this.#onStreamFailure(this.#stream);
    } else if (this.#step('end') === 'rebuilding') this.#rebuild();
  }

  onFailure(error: unknown): void {
    if (error instanceof CallFailure)
      this.#fail({
        ...{ reason: error.message, timedOut: error.kind === 'timeout' },
        outcome: callOutcomes[error.kind],
      });
    else if (error instanceof NodeFailure) this.#fail(toAttemptFailure(error));
    else if (error instanceof Refusal)
      this.#fail({ reason: error.reason, timedOut: false, outcome: 'neutral', refusal: error });
    else if (this.#step('fault') !== 'ignored') {
      this.#abandon();
      this.#reject(error instanceof Error ? error : new Error(String(error)));
    }
  }

  onGone(): void {
    const wasSent = this.#state !== 'connecting';
    const kind = this.#step('gone');
    if (kind === 'ignored') return;
    this.#abandon();
    this.#resolve(wasSent ? { kind, ...this.#spent() } : { kind });
  }

  onBlocked(): void {
    if (this.#step('blocked') !== 'ignored') this.#call.pause();
  }

  onDrained(): void {
    if (this.#step('drained') === 'ignored') return;
    // Restart the deadline for the next event. It may have passed while the slow client kept the node paused.
    this.#expectEvent();
    this.#call.resume();
  }

  /** Sends a keep-alive if one is due and the node has begun to respond. This may begin the client's response. */
  tick(nowMs: number): void {
    const stream = this.#stream;
    const isSilent = nowMs - this.#writtenMs >= this.#options.bounds.keepAliveMs;
    if (!isSilent || stream === undefined) return;
    if (this.#state === 'opening' || this.#state === 'streaming') this.#write([stream.keepAlive], nowMs);
  }

  #step<Event extends AttemptEvent>(event: Event): Next<Event> {
    const next = transitions[this.#state][event];
    const state: AttemptState | 'ignored' = next;
    if (state !== 'ignored') this.#state = state;
    return next;
  }

  #collect(chunk: Buffer): void {
    const problem = this.#whole?.add(chunk);
    if (problem === undefined) this.#expectMore();
    else this.onFailure(problem);
  }

  /** Sets the deadline for the next part of the body. A slow trickle ends at the deadline for the whole body. */
  #expectMore(): void {
    const { bounds, pools } = this.#options;
    const remainingMs = this.#wholeByMs - pools.ticker.nowMs;
    this.#call.setDeadline(Math.min(bounds.betweenBytesMs, remainingMs), 'the rest of its answer');
  }

  #rebuild(): void {
    try {
      const rebuilt = this.#whole?.rebuild();
      if (rebuilt instanceof Promise) {
        // Put `catch` last, so that it also catches errors in the delivery.
        rebuilt.then((answer) => this.#deliverWhole(answer)).catch((error) => this.onFailure(error));
      } else if (rebuilt !== undefined) this.#deliverWhole(rebuilt);
    } catch (error) {
      this.onFailure(error);
    }
  }

  #deliverWhole({ body, ...answer }: RebuiltAnswer): void {
    if (this.#step('whole') === 'ignored') return;
    this.#deliver(answer, this.#client.whole(200, jsonType, this.#options.fields, body));
  }

  #onEvent(data: string): void {
    const stream = this.#stream;
    if (stream === undefined || this.#step('data') === 'ignored') return;
    const frames = stream.push(data);
    const { state } = stream;
    if (state === 'waiting') return;
    if (state === 'failed') {
      this.#onStreamFailure(stream);
      return;
    }
    this.#options.onAnswer?.();
    this.#write(frames, this.#options.pools.ticker.nowMs);
    if (state !== 'completed') this.#expectEvent();
    else if (this.#step('whole') !== 'ignored') this.#deliver(stream, this.#client.end());
  }

  #write(frames: readonly string[], nowMs: number): void {
    if (this.#step('first-event') !== 'ignored')
      this.#client.start(eventStreamType, [...streamFields, ...this.#options.fields]);
    for (const frame of frames) this.#client.write(frame);
    if (frames.length > 0) this.#writtenMs = nowMs;
  }

  #expectEvent(): void {
    const { bounds, pools } = this.#options;
    this.#eventMs = pools.ticker.nowMs;
    this.#call.setDeadline(bounds.betweenEventsMs, 'a further event');
  }

  /** Gives the next event more time, because the node is alive, but no more than a first event gets. */
  #onComment(): void {
    if (this.#stream?.state !== 'streaming') return;
    const { bounds, pools } = this.#options;
    const longestMs = Math.max(bounds.firstEventMs, bounds.betweenEventsMs);
    const remainingMs = this.#eventMs + longestMs - pools.ticker.nowMs;
    this.#call.setDeadline(Math.min(bounds.betweenEventsMs, remainingMs), 'a further event');
  }

  #onStreamFailure({ failure }: SurfaceStream): void {
    if (failure !== undefined) this.#fail(toAttemptFailure(failure));
  }

  /** Ends the call to the node. Memory is released only when the client has received the response, however slow it is. */
  #deliver({ usage, oddForm }: Omit<RebuiltAnswer, 'body'>, delivered: Promise<boolean>): void {
    this.#call.drain();
    void delivered.then((arrived) => {
      const kind = this.#step(arrived ? 'delivered' : 'gone');
      if (kind === 'ignored') return;
      this.#release();
      this.#resolve(kind === 'completed' ? { kind, usage, oddForm } : { kind, ...this.#spent() });
    });
  }

  /** Ends the attempt with a failure. If the client's response has begun, destroys the client's connection. */
  #fail(failure: AttemptFailure): void {
    const kind = this.#step('failure');
    if (kind === 'ignored') return;
    this.#abandon();
    this.#resolve(kind === 'aborted-after-start' ? { kind, failure, ...this.#spent() } : { kind, failure });
    if (kind === 'aborted-after-start') this.#client.destroy();
  }

  /** Tokens that the node has read and written so far, if the response is a stream. */
  #spent(): { readonly spent?: Usage } {
    return this.#stream === undefined ? {} : { spent: this.#stream.usage };
  }

  /** Describes an error response. A wrong content type is the node's fault, but an error may be caused by the request. */
  #errorFailure(detail: unknown): AttemptFailure {
    const isAnswer = this.#status === 200;
    const reason = isAnswer
      ? 'the node answered with a wrong content type'
      : `the node answered ${this.#status}`;
    const outcome = isAnswer ? 'broken' : 'neutral';
    const odd = isAnswer ? { oddForm: reason } : {};
    return { reason, timedOut: false, outcome, status: this.#status, detail, ...odd };
  }

  #abandon(): void {
    this.#call.abort();
    this.#release();
  }

  #release(): void {
    this.#options.pools.ticker.delete(this);
    this.#whole?.release();
    this.#stream?.release();
    this.#errorBody?.release();
  }
}

const callOutcomes: Readonly<Record<CallFailureKind, AttemptFailure['outcome']>> = {
  unreached: 'unreached',
  own: 'neutral',
  timeout: 'broken',
  lost: 'broken',
};

/** What each failure says about the node. Errors, early ends and unusable output may be caused by the request. */
const outcomes: Readonly<Record<NodeFailureKind, AttemptFailure['outcome']>> = {
  error: 'neutral',
  aborted: 'neutral',
  cut: 'broken',
  malformed: 'broken',
  too_large: 'suspect',
  unheld: 'neutral',
  unusable: 'suspect',
};

function toAttemptFailure(failure: NodeFailure): AttemptFailure {
  const { kind, message, detail } = failure;
  const refused = failure instanceof UnheldAnswer ? { refusal: failure.refusal } : {};
  const odd = kind === 'malformed' ? { oddForm: message } : {};
  return { reason: message, timedOut: false, outcome: outcomes[kind], detail, ...odd, ...refused };
}
