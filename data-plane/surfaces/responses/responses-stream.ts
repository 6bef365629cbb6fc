/** Writes the events of a streamed Responses API response. The last one contains the usage and all items. */
import type { MemoryBudget } from '../../../shared/runtime/byte-budget.ts';
import type { AnswerFacts, FinishReason } from '../common/chat-parts.ts';
import { HeldText } from '../common/held-text.ts';
import type { ChoiceDelta } from '../common/node-stream.ts';
import type { StreamWriter, UsageSoFar } from '../common/surface-stream.ts';
import { toResponseLogprobs } from './logprobs.ts';
import { OutputItems } from './output-items.ts';
import { isIncomplete, responseBody } from './response-body.ts';
import { ResponseEvents } from './response-events.ts';
import type { ResponsesContext } from './shape-responses.ts';

export class ResponsesWriter implements StreamWriter {
  readonly #facts: AnswerFacts;
  readonly #context: ResponsesContext;
  readonly #events = new ResponseEvents();
  readonly #held: HeldText;
  readonly #items: OutputItems;
  #hasStarted = false;
  #finish: FinishReason = 'stop';
  #output: readonly object[] = [];

  constructor(facts: AnswerFacts, context: ResponsesContext, memory: MemoryBudget) {
    this.#facts = facts;
    this.#context = context;
    this.#held = new HeldText(memory);
    this.#items = new OutputItems({ unique: facts.unique, context, events: this.#events, held: this.#held });
  }

  write(deltas: readonly ChoiceDelta[]): string[] {
    if (deltas.length > 0 && !this.#hasStarted) this.#start();
    for (const delta of deltas) this.#read(delta);
    return this.#events.take();
  }

  end({ usage }: UsageSoFar): string[] {
    const finished = { output: this.#output, finish: this.#finish, usage };
    const response = responseBody(this.#facts, this.#context, finished);
    const type = isIncomplete(this.#finish) ? 'response.incomplete' : 'response.completed';
    this.#events.addResponse(type, response);
    return this.#events.take();
  }

  release(): void {
    this.#held.release();
  }

  #start(): void {
    this.#hasStarted = true;
    const response = responseBody(this.#facts, this.#context);
    this.#events.addResponse('response.created', response);
    this.#events.addResponse('response.in_progress', response);
  }

  #read({ reasoning, content, refusal, toolCalls, logprobs, finish }: ChoiceDelta): void {
    if (reasoning !== undefined) this.#items.addText('summary_text', reasoning);
    if (content !== undefined) this.#items.addText('output_text', content, toResponseLogprobs(logprobs));
    if (refusal !== undefined) this.#items.addText('refusal', refusal);
    if (toolCalls !== undefined) for (const call of toolCalls) this.#items.call(call);
    if (finish === undefined) return;
    this.#finish = finish;
    this.#output = this.#items.finish(finish);
  }
}
