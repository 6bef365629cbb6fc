/**
 * Converts a node's stream into the events of a response: one id, the model as requested, usage and all items in the last.
 * An early end adds nothing: no usage, no `response.failed`, no error event, no terminal event (Events). The caller
 * destroys the connection then, which is the only end that every client notices.
 */
import type { MemoryBudget } from '../../../shared/runtime/byte-budget.ts';
import { type AnswerFacts, type FinishReason, malformed } from '../../answer/chat-parts.ts';
import { HeldText } from '../../answer/held-text.ts';
import { type ChoiceDelta, NodeStream, type StreamState } from '../../answer/node-stream.ts';
import type { SurfaceStream } from '../../answer/surface.ts';
import type { Usage } from '../../answer/usage.ts';
import { NodeFailure } from '../../core/node-failure.ts';
import { logprobsOf } from './logprobs.ts';
import { OutputItems } from './output-items.ts';
import { isIncomplete, responseBody } from './response-body.ts';
import { ResponseEvents } from './response-events.ts';
import type { ResponsesContext } from './shape-responses.ts';

export class ResponsesStream implements SurfaceStream {
  readonly kind = 'stream';
  readonly #facts: AnswerFacts;
  readonly #context: ResponsesContext;
  readonly #node: NodeStream;
  readonly #events = new ResponseEvents();
  readonly #held: HeldText;
  readonly #items: OutputItems;
  #hasStarted = false;
  #finish: FinishReason = 'stop';
  #output: readonly object[] = [];

  constructor(facts: AnswerFacts, context: ResponsesContext, memory: MemoryBudget) {
    this.#facts = facts;
    this.#context = context;
    this.#node = new NodeStream(facts);
    this.#held = new HeldText(memory);
    this.#items = new OutputItems({ unique: facts.unique, context, events: this.#events, held: this.#held });
  }

  get state(): StreamState {
    return this.#node.state;
  }

  get failure(): NodeFailure | undefined {
    return this.#node.failure;
  }

  /** To be recorded only when the stream is completed and its last frame has been written (Events). */
  get usage(): Usage {
    return this.#node.usage;
  }

  /** Takes the data of one event of the node, and gives the frames to write now. Never throws; check `state`. */
  push(data: string): string[] {
    const before = this.#node.state;
    if (before === 'completed' || before === 'failed') return [];
    try {
      const deltas = this.#node.push(data);
      if (deltas.length > 0 && !this.#hasStarted) this.#start();
      for (const delta of deltas) this.#read(delta);
      if (this.#node.state === 'completed') this.#end();
      return this.#events.take();
    } catch (error) {
      this.fail(error instanceof NodeFailure ? error : malformed('a chunk cannot be read'));
      return [];
    }
  }

  /** The node's body has ended, cleanly or not. */
  end(): void {
    this.#node.end();
  }

  /** Something else ended the stream: a time-out, a lost connection. Without effect after the end. */
  fail(failure: NodeFailure): void {
    this.#node.fail(failure);
  }

  release(): void {
    this.#held.release();
  }

  #start(): void {
    this.#hasStarted = true;
    const response = responseBody(this.#facts, this.#context);
    this.#events.add('response.created', { response });
    this.#events.add('response.in_progress', { response });
  }

  #read({ reasoning, content, refusal, toolCalls, logprobs, finish }: ChoiceDelta): void {
    if (reasoning !== undefined) this.#items.addText('summary_text', reasoning);
    if (content !== undefined) this.#items.addText('output_text', content, logprobsOf(logprobs));
    if (refusal !== undefined) this.#items.addText('refusal', refusal);
    if (toolCalls !== undefined) for (const call of toolCalls) this.#items.call(call);
    if (finish === undefined) return;
    this.#finish = finish;
    this.#output = this.#items.finish(finish);
  }

  #end(): void {
    const finished = { output: this.#output, finish: this.#finish, usage: this.usage };
    const response = responseBody(this.#facts, this.#context, finished);
    this.#events.add(isIncomplete(this.#finish) ? 'response.incomplete' : 'response.completed', { response });
  }
}
