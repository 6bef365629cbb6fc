/**
 * Follows a node's stream of chunks: what each adds, without the differences between engines, and whether the stream ends
 * properly. A stream is complete if every choice has a legal finish reason, no error occurred, and the terminator arrived. A
 * clean end of the body proves nothing, and neither does a terminator after an error.
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

/** Addition of one chunk to one choice. */
export interface ChoiceDelta {
  readonly index: number;
  /** Whether this is the first delta of its choice. */
  readonly first: boolean;
  readonly content?: string | undefined;
  readonly reasoning?: string | undefined;
  readonly refusal?: string | undefined;
  readonly toolCalls?: readonly ToolCallDelta[] | undefined;
  readonly logprobs?: ChatLogprobs | undefined;
  readonly finish?: FinishReason | undefined;
}

/** `waiting` means that no valid event has arrived, so the status of the answer can still be chosen. */
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

  /** Reason for the stream's failure. undefined if it has not failed. */
  get failure(): NodeFailure | undefined {
    return this.#failure;
  }

  /** Usage that the node has reported so far. undefined if it has not reported any. */
  get reportedUsage(): Usage | undefined {
    return this.#usage;
  }

  /** Describes an unusual format in an otherwise complete answer. undefined if there is none. */
  get oddForm(): string | undefined {
    return this.#oddForm;
  }

  /** Usage that the node reported, or an estimate from the text. Recorded only for completed streams. */
  get usage(): Usage {
    const { promptTextBytes, most } = this.#facts;
    return this.#usage ?? estimateUsage(promptTextBytes, this.#completionBytes, most);
  }

  /** Reads the data of one event before the stream ends. Throws NodeFailure. */
  protected read(data: string): readonly ChoiceDelta[] {
    if (data.trim() !== '[DONE]') return this.#readChunk(parseEvent(data));
    this.#terminate();
    return [];
  }

  /** Called when the node's body has ended, cleanly or not. */
  end(): void {
    this.fail(
      this.#unfinished()
        ? new NodeFailure('cut', 'the stream ended without its terminator')
        : malformedAnswer('every choice has finished, but [DONE] is missing'),
    );
  }

  /** Called if something else ends the stream, such as a time-out or a lost connection. Has no effect after the end. */
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
    // Engines and proxies also send events without choices.
    const choices = member(chunk, 'choices') ?? [];
    if (!Array.isArray(choices)) throw malformedAnswer('the choices of a chunk are not a list');
    this.#usage = readUsage(member(chunk, 'usage'), this.#facts.most) ?? this.#usage;
    // Ollama sends an empty chunk without a model if its runner is gone. It must not begin the answer.
    const mayBegin = member(chunk, 'model') !== '';
    const deltas: ChoiceDelta[] = [];
    for (const choice of choices) {
      const delta = choice === null ? undefined : this.#readChoice(choice, mayBegin);
      if (delta !== undefined) deltas.push(delta);
    }
    if (deltas.length > 0) this.#state = 'streaming';
    return deltas;
  }

  /** Reads one choice. `mayBegin` states whether the choice may begin although it does not add content yet. */
  #readChoice(choice: unknown, mayBegin: boolean): ChoiceDelta | undefined {
    const index = choiceIndex(choice, this.#facts);
    const known = this.#choices.get(index);
    const progress = known ?? { finish: undefined, calls: this.#newCalls(index) };

    // Some engines send a complete message as the only event of a stream.
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
