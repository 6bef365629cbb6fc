/**
 * The content of a streamed message as events: blocks one after another, one open at a time.
 * Thoughts and text pass as they come. Calls of tools are written one by one: what comes for a later call waits until
 * the one before is whole, and text after the first call waits for the end, because no block can be opened again.
 */

import type { MemoryBudget } from '../../../shared/runtime/byte-budget.ts';
import { HeldText, renderedLength } from '../common/held-text.ts';
import type { ToolCallDelta } from '../common/tool-call-deltas.ts';
import { ToolInput } from '../common/tool-input.ts';
import { toolUseId } from './message-parts.ts';

/** One event as it goes over the wire. Clients skip a frame without its `event` line. */
export function eventFrame(type: string, members: object): string {
  return `event: ${type}\ndata: ${JSON.stringify({ type, ...members })}\n\n`;
}

interface Call {
  readonly id: string;
  readonly name: string;
  readonly input: ToolInput;
  /** Not written yet. */
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
  /** From the first call on: what comes before one passes at once. */
  #held: HeldText | undefined;
  readonly #calls: Call[] = [];
  /** The call that is written now. */
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

  /** The frames since the last time. */
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

  /** Throws NodeFailure where the input is no object. */
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

  /** Nothing more comes. `cut`: the limit of tokens ended it. Throws NodeFailure where the input of a call is no object. */
  finish(cut: boolean): void {
    for (const { input } of this.#calls) input.value(cut);
    this.#writeCalls(true);
    for (const { kind, text } of this.#late) {
      // Templates leave line ends after a call; they are no content.
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
    // Without a signature, some clients leave thoughts out when they send them back.
    if (this.#open === 'thinking') this.#delta({ type: 'signature_delta', signature: '' });
    this.#frames.push(eventFrame('content_block_stop', { index: this.#index }));
    this.#open = undefined;
  }
}
