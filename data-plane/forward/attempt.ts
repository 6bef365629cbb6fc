/**
 * One attempt to have a request answered by one node: the node's call on one side, the client's answer on the other.
 * What every kind of answer shares stands here: errors in the place of an answer, a client that leaves, back-pressure,
 * and exactly one result. What a body means is the reader's matter (forward-stream.ts, forward-whole.ts).
 */

import type { Refusal } from '../../shared/decision/refusal.ts';
import type { Usage } from '../answer/usage.ts';
import { parseError } from '../core/answer-json.ts';
import type { MemoryBudget } from '../core/byte-budget.ts';
import type { NodeFailure } from '../core/node-failure.ts';
import { ByteCollector } from '../upstream/byte-collector.ts';
import { CallFailure, type CallReader, NodeCall, type NodeRequest } from '../upstream/node-call.ts';
import type { NodePools } from '../upstream/node-pools.ts';
import type { ClientListener, ClientResponse } from './client-response.ts';

/** How long a node may take, and how much it may say. Connecting is the pools' matter. */
export interface AnswerBounds {
  /** To the first good event of a stream. */
  readonly firstEventMs: number;
  /** Between two data events of a stream; comments do not count. */
  readonly betweenEventsMs: number;
  /** To the head of an answer that is not streamed, and then for its whole body. */
  readonly wholeAnswerMs: number;
  /** Between two pieces of a body that is not streamed. */
  readonly betweenBytesMs: number;
  /** For the body of an error. */
  readonly errorBodyMs: number;
  /** Largest body of an answer that is not streamed. */
  readonly answerBytesMax: number;
}

/** Why no answer, or no whole one, could be had of a node. */
export interface AttemptFailure {
  /** For the log; holds nothing that node or client wrote. */
  readonly reason: string;
  readonly timedOut: boolean;
  /** Tells of the node, not of the request: it broke off, was silent, or sent what is no answer. */
  readonly breaks: boolean;
  /** Of the node's answer, where that was an error. */
  readonly status?: number;
  /** The node's error as parsed, for `contextErrorOf`; never logged or shown. */
  readonly detail?: unknown;
  /** What the client is answered, where it was not the node that failed. */
  readonly refusal?: Refusal;
}

export type AttemptResult =
  | { readonly kind: 'completed'; readonly usage: Usage }
  /** The client left, before or after the first byte. */
  | { readonly kind: 'left' }
  /** After the first byte; the client's connection is destroyed. */
  | { readonly kind: 'cut'; readonly failure: AttemptFailure }
  /** Before the first byte; the client still waits for an answer. */
  | { readonly kind: 'failed'; readonly failure: AttemptFailure }
  /** No byte of the request was sent. */
  | { readonly kind: 'unreached'; readonly reason: string };

/** What is made of a good body. */
export interface BodyReader {
  accepts(contentType: string): boolean;
  onHead(): void;
  onData(chunk: Buffer): void;
  onEnd(): void;
  /** Gives back what is held; called once, at the end. */
  release(): void;
}

export interface AttemptOptions {
  readonly client: ClientResponse;
  readonly pools: NodePools;
  /** Charged for what is held of the answer. */
  readonly memory: MemoryBudget;
  readonly bounds: AnswerBounds;
  /** The request goes out to the node. */
  readonly onSent?: (() => void) | undefined;
  /** The node answers. */
  readonly onTaken?: (() => void) | undefined;
}

const errorBytesMax = 64 * 1024;

export class Attempt implements CallReader, ClientListener {
  readonly call: NodeCall;
  readonly client: ClientResponse;
  readonly bounds: AnswerBounds;
  readonly pools: NodePools;
  readonly memory: MemoryBudget;
  readonly #result: Promise<AttemptResult>;
  readonly #onSent: (() => void) | undefined;
  readonly #onTaken: (() => void) | undefined;
  #resolve: (result: AttemptResult) => void = () => undefined;
  #reject: (error: Error) => void = () => undefined;
  #body: BodyReader | undefined;
  #errorBody: ByteCollector | undefined;
  #status = 0;
  #settled = false;

  constructor({ client, pools, memory, bounds, onSent, onTaken }: AttemptOptions) {
    this.#onSent = onSent;
    this.#onTaken = onTaken;
    this.memory = memory;
    this.client = client;
    this.pools = pools;
    this.bounds = bounds;
    this.call = new NodeCall(pools.ticker, this);
    this.#result = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
  }

  /** Sends the request. Rejects only where the fault is ours. */
  run(request: NodeRequest, body: BodyReader): Promise<AttemptResult> {
    this.#body = body;
    this.client.listen(this);
    this.call.start(this.pools, request);
    return this.#result;
  }

  /** The answer is whole: hands its end to the client, who may have left meanwhile. */
  complete(usage: Usage, handed: Promise<boolean>): void {
    this.#settled = true;
    this.call.dropRest();
    // Until the client has taken it, the answer is in memory, however slowly the client reads.
    void handed.then((arrived) => {
      this.#release();
      this.#resolve(arrived ? { kind: 'completed', usage } : { kind: 'left' });
    });
  }

  /** The node failed; what the client sees depends on whether its answer has begun. */
  fail(failure: AttemptFailure): void {
    if (this.#settled) return;
    if (!this.client.started) {
      this.#settle({ kind: 'failed', failure });
      return;
    }
    this.#settle({ kind: 'cut', failure });
    this.client.destroy();
  }

  onSent(): void {
    this.#onSent?.();
  }

  onHead(status: number, contentType: string): void {
    this.#status = status;
    this.#onTaken?.();
    if (status === 200 && this.#body?.accepts(contentType)) {
      this.#body.onHead();
      return;
    }
    this.#errorBody = new ByteCollector(this.memory, errorBytesMax);
    this.call.waitAtMost(this.bounds.errorBodyMs, 'the whole body of its error');
  }

  onData(chunk: Buffer): void {
    if (this.#errorBody === undefined) this.#body?.onData(chunk);
    else if (!this.#errorBody.add(chunk)) this.#failWithStatus(undefined);
  }

  onEnd(): void {
    if (this.#errorBody === undefined) this.#body?.onEnd();
    else this.#failWithStatus(parseError(this.#errorBody.whole()));
  }

  onFailure(error: Error): void {
    if (!(error instanceof CallFailure)) {
      this.#end();
      this.#reject(error);
    } else if (error.kind === 'unreached') {
      this.#settle({ kind: 'unreached', reason: error.message });
    } else {
      this.fail({ reason: error.message, timedOut: error.kind === 'timeout', breaks: true });
    }
  }

  onGone(): void {
    this.#settle({ kind: 'left' });
  }

  onBlocked(): void {
    this.call.pause();
  }

  onDrained(): void {
    // A wait that ran while the client held the node back is begun anew.
    this.call.waitAtMost(this.bounds.betweenEventsMs, 'an event');
    this.call.resume();
  }

  /** An answer of the wrong type tells of a broken node; an error may be the request's own fault. */
  #failWithStatus(detail: unknown): void {
    const isAnswer = this.#status === 200;
    this.fail({
      reason: isAnswer ? 'the node answered with a wrong content type' : `the node answered ${this.#status}`,
      timedOut: false,
      breaks: isAnswer,
      status: this.#status,
      detail,
    });
  }

  #settle(result: AttemptResult): void {
    if (this.#settled) return;
    this.#end();
    this.#resolve(result);
  }

  #end(): void {
    this.#settled = true;
    this.call.abort();
    this.#release();
  }

  #release(): void {
    this.#body?.release();
    this.#errorBody?.release();
  }
}

/** A failure of the answer itself. An error that the node reports, or a finish it gives up, may be the request's fault. */
export function failureOf(error: NodeFailure): AttemptFailure {
  const breaks = error.kind !== 'error' && error.kind !== 'aborted';
  return { reason: error.message, timedOut: false, breaks, detail: error.detail };
}
