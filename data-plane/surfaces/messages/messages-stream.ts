/**
 * Converts a node's stream into the events of a message: one id, the model as requested, usage at the end. The first event
 * has the tokens of the prompt where the node reports them.
 * An early end adds nothing: no stop reason, no usage, no error event, no `message_stop` (Events). The caller
 * destroys the connection then.
 */

import type { MemoryBudget } from '../../../shared/runtime/byte-budget.ts';
import { type AnswerFacts, malformed } from '../../answer/chat-parts.ts';
import { type ChoiceDelta, NodeStream, type StreamState } from '../../answer/node-stream.ts';
import type { SurfaceStream } from '../../answer/surface.ts';
import type { Usage } from '../../answer/usage.ts';
import { NodeFailure } from '../../core/node-failure.ts';
import { member } from '../../core/untrusted.ts';
import { ContentBlocks, eventFrame } from './content-blocks.ts';
import { deltaUsage, messageBody, type Stop, stopOf } from './message-parts.ts';
import type { MessagesContext } from './shape-messages.ts';

export class MessagesStream implements SurfaceStream {
  readonly kind = 'stream';
  readonly #facts: AnswerFacts;
  readonly #context: MessagesContext;
  readonly #node: NodeStream;
  readonly #blocks: ContentBlocks;
  #hasStarted = false;
  #stop: Stop | undefined;

  constructor(facts: AnswerFacts, context: MessagesContext, memory: MemoryBudget) {
    this.#facts = facts;
    this.#context = context;
    this.#node = new NodeStream(facts);
    this.#blocks = new ContentBlocks({ showsThinking: context.thinkingDisplay === 'shown', memory });
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
      for (const delta of deltas) this.#read(delta, data);
      const frames = this.#blocks.take();
      if (deltas.length > 0 && !this.#hasStarted) {
        this.#hasStarted = true;
        frames.unshift(
          eventFrame('message_start', {
            message: messageBody(this.#facts, { usage: this.#node.reportedUsage }),
          }),
        );
      }
      if (this.#node.state === 'completed') frames.push(...this.#end());
      return frames;
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
    // Read a second time, once in a stream: the deltas are free of what only some engines send.
    const choice = stopSequences.length === 0 ? undefined : finishedChoice(data);
    this.#stop = stopOf(finish, choice, { hasCalls: this.#blocks.hasCalls, stopSequences });
  }

  #end(): string[] {
    const delta = { ...this.#stop, stop_details: null, container: null };
    return [
      eventFrame('message_delta', { delta, usage: deltaUsage(this.usage) }),
      eventFrame('message_stop', {}),
    ];
  }
}

function finishedChoice(data: string): unknown {
  const choices = member(JSON.parse(data), 'choices');
  return Array.isArray(choices)
    ? choices.find((choice) => member(choice, 'finish_reason') !== null)
    : undefined;
}
