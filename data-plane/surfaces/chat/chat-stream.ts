/** Writes a streamed chat completion. All events have one id and the requested model name. Usage follows if requested. */

import { type AnswerFacts, completionId } from '../common/chat-parts.ts';
import type { ChoiceDelta } from '../common/node-stream.ts';
import type { StreamWriter, UsageSoFar } from '../common/surface-stream.ts';
import { usageBody } from '../common/usage.ts';
import type { ChatContext } from './shape-chat.ts';

export class ChatWriter implements StreamWriter {
  readonly #head: string;
  readonly #tail: string;
  readonly #includeUsage: boolean;

  constructor(facts: AnswerFacts, { includeUsage }: ChatContext) {
    const { created, model } = facts;
    const id = completionId(facts);
    const open = JSON.stringify({ id, object: 'chat.completion.chunk', created, model });
    this.#head = `data: ${open.slice(0, -1)},"choices":`;
    this.#tail = includeUsage ? ',"usage":null}\n\n' : '}\n\n';
    this.#includeUsage = includeUsage;
  }

  write(deltas: readonly ChoiceDelta[]): string[] {
    return deltas.map((delta) => this.#frame(delta));
  }

  end({ usage }: UsageSoFar): string[] {
    const done = 'data: [DONE]\n\n';
    if (!this.#includeUsage) return [done];
    return [`${this.#head}[],"usage":${JSON.stringify(usageBody(usage))}}\n\n`, done];
  }

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

/** Whether the delta only adds text to a choice, as nearly all do. Its frame can be written without building an object. */
function isPlainText(delta: ChoiceDelta): boolean {
  const { first, content, reasoning, refusal, toolCalls, logprobs, finish } = delta;
  return (
    !first && content !== undefined && (reasoning ?? refusal ?? toolCalls ?? logprobs ?? finish) === undefined
  );
}

function deltaBody({ first, content, reasoning, refusal, toolCalls }: ChoiceDelta): object {
  // Clients take the first delta as the start of a message, so it needs `content` even if the node sent none.
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
