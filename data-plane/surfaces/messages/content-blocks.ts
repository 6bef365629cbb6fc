/**
 * Writes the content of a streamed Anthropic-style message as events. One content block is open at a time, and a closed block
 * cannot be reopened. So tool calls are written one after the other, and text that follows a call waits until the end.
 * Reasoning and text before the first call pass through at once.
 */

import type { MemoryBudget } from '../../../shared/runtime/byte-budget.ts';
import { HeldText, renderedLength } from '../common/held-text.ts';
import type { ToolCallDelta } from '../common/tool-call-deltas.ts';
import { ToolInput } from '../common/tool-input.ts';
import { toolUseId } from './message-parts.ts';

/** Frame of one server-sent event. The `event` line is needed, because clients skip frames without it. */
export function eventFrame(type: string, members: object): string {
  return `event: ${type}\ndata: ${JSON.stringify({ type, ...members })}\n\n`;
}

interface Call {
  readonly id: string;
  readonly name: string;
  readonly input: ToolInput;
  /** Part of the tool call's input that the client has not received yet. */
  waiting: string;
}

type TextKind = 'thinking' | 'text';

const emptyBlocks = {
  thinking: { type: 'thinking', thinking: '', signature: '' },
  text: { type: 'text', text: '' },
} as const;

export class ContentBlocks {
  readonly #showsThinking: boolean;
  readonly #memory: MemoryBudget;
  /** Charges for the text held since the first tool call. Undefined before, because text then passes through at once. */
  #held: HeldText | undefined;
  readonly #calls: Call[] = [];
  #current = 0;
  readonly #late: { readonly kind: TextKind; text: string }[] = [];
  #open: TextKind | 'tool_use' | undefined;
  #index = -1;
  #frames: string[] = [];

  constructor(options: { readonly showsThinking: boolean; readonly memory: MemoryBudget }) {
    this.#showsThinking = options.showsThinking;
    this.#memory = options.memory;
  }

  get hasCalls(): boolean {
    return this.#calls.length > 0;
  }

  /** Returns the frames that were added since the last call of this method. */
  take(): string[] {
    const frames = this.#frames;
    this.#frames = [];
    return frames;
  }

  addText(kind: TextKind, text: string): void {
    if (!this.hasCalls) {
      this.#write(kind, text);
      return;
    }
    this.#hold(renderedLength(text));
    const last = this.#late[this.#late.length - 1];
    if (last?.kind === kind) last.text += text;
    else this.#late.push({ kind, text });
  }

  /** Adds a part of a tool call. Throws `NodeFailure` if the call's input is not an object. */
  call({ index, opened, arguments: added }: ToolCallDelta): void {
    if (opened !== undefined) {
      this.#calls[index] = {
        id: toolUseId(opened.id),
        name: opened.name,
        input: new ToolInput(),
        waiting: '',
      };
    }
    const call = this.#calls[index];
    if (call === undefined) return;
    this.#hold(renderedLength(added) + (opened === undefined ? 0 : renderedLength(opened.name)));
    call.waiting += call.input.add(added);
    this.#writeCalls(false);
  }

  /** Ends the content. `cut` says whether the token limit was reached. Throws `NodeFailure` if a call's input is invalid. */
  finish(cut: boolean): void {
    for (const { input } of this.#calls) input.value(cut);
    this.#writeCalls(true);
    for (const { kind, text } of this.#late) {
      // Skip text of nothing but line breaks, which templates leave after a tool call.
      if (text.trim() !== '') this.#write(kind, text);
    }
    this.#close();
  }

  release(): void {
    this.#held?.release();
  }

  #hold(characters: number): void {
    this.#held ??= new HeldText(this.#memory);
    this.#held.add(characters);
  }

  #writeCalls(isLast: boolean): void {
    for (let call = this.#calls[this.#current]; call !== undefined; call = this.#calls[this.#current]) {
      if (this.#open !== 'tool_use')
        this.#start('tool_use', { type: 'tool_use', id: call.id, name: call.name, input: {} });
      if (call.waiting !== '') this.#delta({ type: 'input_json_delta', partial_json: call.waiting });
      call.waiting = '';
      if (!isLast && !(call.input.isWhole && this.#calls[this.#current + 1] !== undefined)) return;
      this.#close();
      this.#current += 1;
    }
  }

  #write(kind: TextKind, text: string): void {
    if (this.#open !== kind) this.#start(kind, emptyBlocks[kind]);
    if (kind === 'text') this.#delta({ type: 'text_delta', text });
    else if (this.#showsThinking) this.#delta({ type: 'thinking_delta', thinking: text });
  }

  #start(kind: TextKind | 'tool_use', block: object): void {
    this.#close();
    this.#open = kind;
    this.#index += 1;
    this.#frames.push(eventFrame('content_block_start', { index: this.#index, content_block: block }));
  }

  #delta(delta: object): void {
    this.#frames.push(eventFrame('content_block_delta', { index: this.#index, delta }));
  }

  #close(): void {
    if (this.#open === undefined) return;
    // Send an empty signature, because some clients drop reasoning without a signature when they send it back.
    if (this.#open === 'thinking') this.#delta({ type: 'signature_delta', signature: '' });
    this.#frames.push(eventFrame('content_block_stop', { index: this.#index }));
    this.#open = undefined;
  }
}
