/**
 * Reads a node's stream of chunks. Converts what each chunk adds to one format for all engines, and decides whether the
 * stream is complete: every choice has a legal finish reason, no error occurred, and `[DONE]` arrived. A clean end of the
 * body proves nothing, and neither does `[DONE]` after an error.
 */

import { parseEvent } from './answer-json.ts';
import {
  type AnswerFacts,
  type ChatLogprobs,
  choiceIndex,
  type FinishReason,
  finishReason,
  givenEnd,
  malformedAnswer,
  oddFinish,
  optionalText,
  readReasoning,
  rebuildLogprobs,
  refuseError,
  toolCallId,
} from './chat-parts.ts';
import { NodeFailure } from './node-failure.ts';
import { type ToolCallDelta, ToolCallDeltas } from './tool-call-deltas.ts';
import { member, text } from './untrusted.ts';
import { estimateUsage, outputBytes, readUsage, type Usage } from './usage.ts';

/** Content that one chunk adds to one choice of the response. */
export interface ChoiceDelta {
  readonly index: number;
  readonly first: boolean;
  readonly content?: string | undefined;
  readonly reasoning?: string | undefined;
  readonly refusal?: string | undefined;
  readonly toolCalls?: readonly ToolCallDelta[] | undefined;
  readonly logprobs?: ChatLogprobs | undefined;
  readonly finish?: FinishReason | undefined;
}

/** State of a node's stream. While it is `waiting`, no valid event has arrived, so the HTTP status may still change. */
type StreamState = 'waiting' | 'streaming' | 'completed' | 'failed';

interface ChoiceProgress {
  finish: FinishReason | undefined;
  readonly calls: ToolCallDeltas;
}

export class NodeStream {
  readonly #facts: AnswerFacts;
  readonly #choices = new Map<number, ChoiceProgress>();
  #state: StreamState = 'waiting';
  #failure: NodeFailure | undefined;
  #usage: Usage | undefined;
  #completionBytes = 0;
  #oddForm: string | undefined;

  constructor(facts: AnswerFacts) {
    this.#facts = facts;
  }

  get state(): StreamState {
    return this.#state;
  }

  get failure(): NodeFailure | undefined {
    return this.#failure;
  }

  /** Usage that the node has reported so far, or undefined if it has not reported any. */
  get reportedUsage(): Usage | undefined {
    return this.#usage;
  }

  /** Description of an unusual format in a complete response, or undefined if the format was as expected. */
  get oddForm(): string | undefined {
    return this.#oddForm;
  }

  /** Usage that the node has reported, or else an estimate from the text. Recorded for completed streams only. */
  get usage(): Usage {
    const { promptTextBytes, most } = this.#facts;
    return this.#usage ?? estimateUsage(promptTextBytes, this.#completionBytes, most);
  }

  /** Reads the data of one event. Throws `NodeFailure` if the data is not a valid chunk. */
  protected read(data: string): readonly ChoiceDelta[] {
    if (data.trim() !== '[DONE]') return this.#readChunk(parseEvent(data));
    this.#terminate();
    return [];
  }

  /** Must be called when the body of the node's response has ended. The stream then fails unless it was complete. */
  end(): void {
    this.fail(
      this.#unfinished()
        ? new NodeFailure('cut', 'the stream ended without its terminator')
        : malformedAnswer('every choice has finished, but [DONE] is missing'),
    );
  }

  /** Fails the stream for a reason outside it, such as a time-out. Has no effect once the stream is completed or failed. */
  fail(failure: NodeFailure): void {
    if (this.#state === 'completed' || this.#state === 'failed') return;
    this.#state = 'failed';
    this.#failure = failure;
  }

  #terminate(): void {
    if (this.#unfinished()) throw malformedAnswer('a choice has no finish reason');
    this.#state = 'completed';
  }

  #unfinished(): boolean {
    for (let index = 0; index < this.#facts.choices; index += 1)
      if (this.#choices.get(index)?.finish === undefined) return true;
    return false;
  }

  #readChunk(chunk: unknown): readonly ChoiceDelta[] {
    if (typeof chunk !== 'object') throw malformedAnswer('an event is not a JSON object');
    refuseError(chunk);
    // Accept events without choices, because engines and proxies send such events, too.
    const choices = member(chunk, 'choices') ?? [];
    if (!Array.isArray(choices)) throw malformedAnswer('the choices of a chunk are not a list');
    this.#usage = readUsage(member(chunk, 'usage'), this.#facts.most) ?? this.#usage;
    // If one of Ollama's runners dies, it sends an empty chunk without a model, which must not begin the response.
    const mayBegin = member(chunk, 'model') !== '';
    const deltas: ChoiceDelta[] = [];
    for (const choice of choices) {
      const delta = choice === null ? undefined : this.#readChoice(choice, mayBegin);
      if (delta !== undefined) deltas.push(delta);
    }
    if (deltas.length > 0) this.#state = 'streaming';
    return deltas;
  }

  /** Reads what a chunk adds to one choice. If `mayBegin` is true, the choice may begin with a delta without content. */
  #readChoice(choice: unknown, mayBegin: boolean): ChoiceDelta | undefined {
    const index = choiceIndex(choice, this.#facts);
    const known = this.#choices.get(index);
    const progress = known ?? { finish: undefined, calls: this.#newCalls(index) };

    // Some engines send the whole message as a stream's only event.
    const delta = member(choice, 'delta') ?? (known === undefined ? member(choice, 'message') : undefined);
    const content = text(optionalText(member(delta, 'content')));
    const reasoning = text(readReasoning(delta));
    const refusal = text(optionalText(member(delta, 'refusal')));
    const calls = progress.calls.read(delta);
    const given = givenEnd(choice);
    const finish = given === undefined ? undefined : finishReason(given, progress.calls.count > 0);
    this.#oddForm ??= oddFinish(given);
    calls.push(...progress.calls.completed(finish));
    const toolCalls = calls.length === 0 ? undefined : calls;
    const logprobs = this.#facts.logprobs
      ? (rebuildLogprobs(member(choice, 'logprobs')) ?? undefined)
      : undefined;
    this.#completionBytes += outputBytes({ content, reasoning, refusal, toolCalls });

    const isEmpty = (content ?? reasoning ?? refusal ?? toolCalls ?? logprobs) === undefined;
    if (progress.finish !== undefined) {
      if (!isEmpty) throw malformedAnswer('a choice continued after its end');
      return undefined;
    }
    const first = known === undefined;
    if (finish === undefined && isEmpty && !(first && mayBegin)) return undefined;
    progress.finish = finish;
    this.#choices.set(index, progress);
    return { index, first, content, reasoning, refusal, toolCalls, logprobs, finish };
  }

  #newCalls(choice: number): ToolCallDeltas {
    return new ToolCallDeltas({
      firstOnly: this.#facts.firstToolCallOnly,
      idOf: (call, given) => toolCallId(this.#facts, choice, call, given),
    });
  }
}
