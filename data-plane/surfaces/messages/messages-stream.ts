/** Writes the events of a streamed Anthropic-style message. The first contains the number of prompt tokens, if known. */

import type { MemoryBudget } from '../../../shared/runtime/byte-budget.ts';
import type { AnswerFacts } from '../common/chat-parts.ts';
import type { ChoiceDelta } from '../common/node-stream.ts';
import type { StreamWriter, UsageSoFar } from '../common/surface-stream.ts';
import { member } from '../common/untrusted.ts';
import { ContentBlocks, eventFrame } from './content-blocks.ts';
import { deltaUsage, messageBody, type Stop, toStop } from './message-parts.ts';
import type { MessagesContext } from './shape-messages.ts';

export class MessagesWriter implements StreamWriter {
  readonly keepAlive = eventFrame('ping', {});
  readonly #facts: AnswerFacts;
  readonly #context: MessagesContext;
  readonly #blocks: ContentBlocks;
  #hasStarted = false;
  #stop: Stop | undefined;

  constructor(facts: AnswerFacts, context: MessagesContext, memory: MemoryBudget) {
    this.#facts = facts;
    this.#context = context;
    this.#blocks = new ContentBlocks({ showsThinking: context.thinkingDisplay === 'shown', memory });
  }

  write(deltas: readonly ChoiceDelta[], { reportedUsage: usage }: UsageSoFar, data: string): string[] {
    for (const delta of deltas) this.#read(delta, data);
    const frames = this.#blocks.take();
    if (deltas.length > 0 && !this.#hasStarted) {
      this.#hasStarted = true;
      frames.unshift(eventFrame('message_start', { message: messageBody(this.#facts, { usage }) }));
    }
    return frames;
  }

  end({ usage }: UsageSoFar): string[] {
    const delta = { ...this.#stop, stop_details: null, container: null };
    return [eventFrame('message_delta', { delta, usage: deltaUsage(usage) }), eventFrame('message_stop', {})];
  }

  release(): void {
    this.#blocks.release();
  }

  #read({ reasoning, content, refusal, toolCalls, finish }: ChoiceDelta, data: string): void {
    if (reasoning !== undefined) this.#blocks.addText('thinking', reasoning);
    if (content !== undefined) this.#blocks.addText('text', content);
    if (refusal !== undefined) this.#blocks.addText('text', refusal);
    for (const call of toolCalls ?? []) this.#blocks.call(call);
    if (finish === undefined) return;
    this.#blocks.finish(finish === 'length');
    const { stopSequences } = this.#context;
    // Parse this one event again, because only the engine's own members name the stop sequence.
    const choice = stopSequences.length === 0 ? undefined : finishedChoice(data);
    this.#stop = toStop(finish, choice, stopSequences);
  }
}

function finishedChoice(data: string): unknown {
  const choices = member(JSON.parse(data), 'choices');
  return Array.isArray(choices)
    ? choices.find((choice) => member(choice, 'finish_reason') !== null)
    : undefined;
}
