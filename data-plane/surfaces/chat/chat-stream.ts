/**
 * Converts a node's stream into the frames of a chat completion: one id for all, the model as requested, usage if requested.
 * An early end adds nothing: no finish, no error frame, no terminator (Events). The caller destroys the connection then.
 */

import { type AnswerFacts, completionId } from '../../answer/chat-parts.ts';
import { type ChoiceDelta, NodeStream, type StreamState } from '../../answer/node-stream.ts';
import type { SurfaceStream } from '../../answer/surface.ts';
import { type Usage, usageBody } from '../../answer/usage.ts';
import type { NodeFailure } from '../../core/node-failure.ts';
import type { ChatContext } from './shape-chat.ts';

export class ChatStream implements SurfaceStream {
  readonly kind = 'stream';
  readonly #node: NodeStream;
  readonly #head: string;
  readonly #tail: string;
  readonly #includeUsage: boolean;

  constructor(facts: AnswerFacts, { includeUsage }: ChatContext) {
    this.#node = new NodeStream(facts);
    const { created, model } = facts;
    const id = completionId(facts);
    const open = JSON.stringify({ id, object: 'chat.completion.chunk', created, model });
    this.#head = `data: ${open.slice(0, -1)},"choices":`;
    this.#tail = includeUsage ? ',"usage":null}\n\n' : '}\n\n';
    this.#includeUsage = includeUsage;
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
    const frames = this.#node.push(data).map((delta) => this.#frame(delta));
    if (before !== 'completed' && this.#node.state === 'completed') {
      if (this.#includeUsage) {
        frames.push(`${this.#head}[],"usage":${JSON.stringify(usageBody(this.usage))}}\n\n`);
      }
      frames.push('data: [DONE]\n\n');
    }
    return frames;
  }

  /** The node's body has ended, cleanly or not. */
  end(): void {
    this.#node.end();
  }

  /** Something else ended the stream: a time-out, a lost connection. Without effect after the end. */
  fail(failure: NodeFailure): void {
    this.#node.fail(failure);
  }

  /** Nothing is held: each chunk passes at once. */
  release(): void {}

  #frame(delta: ChoiceDelta): string {
    if (isPlainText(delta))
      return `${this.#head}[{"index":${delta.index},"delta":{"content":${JSON.stringify(delta.content)}},"logprobs":null,"finish_reason":null}]${this.#tail}`;
    const choice = {
      index: delta.index,
      delta: deltaBody(delta),
      logprobs: delta.logprobs ?? null,
      finish_reason: delta.finish ?? null,
    };
    return `${this.#head}[${JSON.stringify(choice)}]${this.#tail}`;
  }
}

/** Nearly every delta: some text of a choice that has begun. Its frame is a string between constant ones. */
function isPlainText(delta: ChoiceDelta): boolean {
  const { first, content, reasoning, refusal, toolCalls, logprobs, finish } = delta;
  return (
    !first && content !== undefined && (reasoning ?? refusal ?? toolCalls ?? logprobs ?? finish) === undefined
  );
}

function deltaBody({ first, content, reasoning, refusal, toolCalls }: ChoiceDelta): object {
  // Clients take the first delta for the beginning of a message, so it has a content even where none came.
  const opening = first ? { role: 'assistant', content: toolCalls === undefined ? '' : null } : {};
  return {
    ...opening,
    ...(content === undefined ? {} : { content }),
    ...(reasoning === undefined ? {} : { reasoning_content: reasoning }),
    ...(refusal === undefined ? {} : { refusal }),
    ...(toolCalls === undefined
      ? {}
      : {
          tool_calls: toolCalls.map(({ index, opened, arguments: added }) =>
            opened === undefined
              ? { index, function: { arguments: added } }
              : {
                  index,
                  id: opened.id,
                  type: 'function',
                  function: { name: opened.name, arguments: added },
                },
          ),
        }),
  };
}
