/**
 * Builds the output items of a Responses API response, whether streamed or whole. Reasoning and text pass through at once,
 * until the first tool call. Tool calls are written one after the other, and text that follows a call waits until the end.
 */
import type { FinishReason } from '../common/chat-parts.ts';
import { type HeldText, renderedLength } from '../common/held-text.ts';
import { NodeFailure } from '../common/node-failure.ts';
import type { ToolCallDelta } from '../common/tool-call-deltas.ts';
import { CallItem } from './call-item.ts';
import type { ResponseLogprob } from './logprobs.ts';
import { isIncomplete } from './response-body.ts';
import type { ResponseEvents } from './response-events.ts';
import { sealThoughts } from './sealed-thoughts.ts';
import type { ResponsesContext } from './shape-responses.ts';
import { type ItemPlace, TextItem, type TextKind, textKinds } from './text-item.ts';

/** Maximum length of a response's text. All of the text must be held, because the last event repeats it. */
const charactersMax = 4 * 1024 * 1024;
/** Memory for an item or a part in addition to its text, counted in characters. */
const partCharacters = 1024;
/** Number of events at a stream's end that repeat the text: the ends of the text, its part, its item and the response. */
const endEvents = 4;

const noLogprobs: readonly ResponseLogprob[] = [];

export interface ItemsOptions {
  readonly unique: string;
  readonly context: ResponsesContext;
  /** Collects the events of a stream. Undefined if the response is not streamed. */
  readonly events: ResponseEvents | undefined;
  readonly held: HeldText | undefined;
}

interface LateText {
  readonly kind: TextKind;
  text: string;
}

export class OutputItems {
  readonly #options: ItemsOptions;
  /** Items that are finished, in the order of the response. */
  readonly #items: object[] = [];
  readonly #calls: CallItem[] = [];
  readonly #late: LateText[] = [];
  #text: TextItem | undefined;
  #current = 0;
  #nextIndex = 0;
  #characters = 0;
  #hasMessage = false;

  constructor(options: ItemsOptions) {
    this.#options = options;
  }

  addText(kind: TextKind, text: string, logprobs = noLogprobs): void {
    this.#count(renderedLength(text));
    if (logprobs.length > 0) this.#count(renderedLength(logprobs));
    if (this.#calls.length === 0) {
      this.#write(kind, text, logprobs);
      return;
    }
    const last = this.#late[this.#late.length - 1];
    if (last?.kind === kind) last.text += text;
    else {
      this.#count(partCharacters);
      this.#late.push({ kind, text });
    }
  }

  /** Adds a part of a tool call. Throws `NodeFailure` if the call's input is invalid. */
  call({ index, opened, arguments: added }: ToolCallDelta): void {
    this.#count(renderedLength(added));
    if (opened !== undefined) {
      this.#count(partCharacters + renderedLength(opened.name));
      const called = this.#options.context.names.get(opened.name) ?? { name: opened.name };
      this.#calls[index] = new CallItem(opened.id, called);
    }
    const call = this.#calls[index];
    if (call === undefined) return;
    call.add(added);
    this.#writeCalls();
  }

  /** Ends the response and returns all its items. Throws `NodeFailure` if a tool call's input is invalid. */
  finish(finish: FinishReason): readonly object[] {
    this.#options.held?.repeat(endEvents);
    this.#finishCalls(finish === 'length');
    // Skip text of nothing but line breaks, which templates leave after a tool call.
    for (const { kind, text } of this.#late) if (text.trim() !== '') this.#write(kind, text, noLogprobs);
    // Add an empty message, because agents treat a response without a message or call as missing and repeat the request.
    if (!this.#hasMessage && this.#items.every((item) => !('call_id' in item)))
      this.#write('output_text', '', noLogprobs);
    this.#endText(isIncomplete(finish));
    return this.#items;
  }

  #count(characters: number): void {
    this.#characters += characters;
    if (this.#characters > charactersMax)
      throw new NodeFailure('too_large', 'the answer of the node is too large');
    this.#options.held?.add(characters);
  }

  #write(kind: TextKind, text: string, logprobs: readonly ResponseLogprob[]): void {
    const { item } = textKinds[kind];
    if (this.#text?.item !== item) {
      this.#endText(false);
      this.#text = new TextItem(item, this.#nextPlace(), this.#options.events);
      if (item === 'message') this.#hasMessage = true;
    }
    if (!this.#text.has(kind)) this.#count(partCharacters);
    this.#text.add(kind, text, logprobs);
  }

  #endText(isCut: boolean): void {
    const ended = this.#text;
    if (ended === undefined) return;
    this.#text = undefined;
    const { sealKey } = this.#options.context;
    const isSealed = ended.item === 'reasoning' && sealKey !== undefined;
    const sealed = isSealed ? sealThoughts(ended.text, sealKey) : undefined;
    this.#items.push(ended.end(isCut ? 'incomplete' : 'completed', sealed));
  }

  #writeCalls(): void {
    for (let call = this.#calls[this.#current]; call !== undefined; call = this.#calls[this.#current]) {
      this.#start(call);
      call.write(this.#options.events);
      if (!call.isWhole || this.#calls[this.#current + 1] === undefined) return;
      this.#endCall(call);
    }
  }

  /** Finishes the calls. If `isCut` is true, the token limit was reached, so a last, incomplete call stays unfinished. */
  #finishCalls(isCut: boolean): void {
    for (let call = this.#calls[this.#current]; call !== undefined; call = this.#calls[this.#current]) {
      if (isCut && !call.isWhole) {
        this.#current += 1;
        continue;
      }
      this.#start(call);
      this.#endCall(call);
    }
  }

  #start(call: CallItem): void {
    if (call.hasStarted) return;
    this.#endText(false);
    call.start(this.#nextPlace(), this.#options.events);
  }

  #endCall(call: CallItem): void {
    call.complete();
    this.#items.push(call.end(this.#options.events));
    this.#current += 1;
  }

  #nextPlace(): ItemPlace {
    const outputIndex = this.#nextIndex;
    this.#nextIndex += 1;
    return { unique: `${this.#options.unique}${outputIndex.toString(36).padStart(2, '0')}`, outputIndex };
  }
}
