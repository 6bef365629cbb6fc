/**
 * A tool call of the Responses API as the model writes it. Its deltas contain JSON for a function and plain text for a custom
 * tool. An incomplete call is never marked as finished, because clients run finished calls.
 */
import { ToolInput } from '../common/tool-input.ts';
import { CustomInput } from './custom-input.ts';
import type { CalledAs } from './offered-tools.ts';
import { deltaHead, type ResponseEvents } from './response-events.ts';
import type { ItemPlace } from './text-item.ts';

const forms = {
  function: {
    type: 'function_call',
    member: 'arguments',
    id: 'fc',
    event: 'response.function_call_arguments',
  },
  custom: { type: 'custom_tool_call', member: 'input', id: 'ctc', event: 'response.custom_tool_call_input' },
} as const;

export class CallItem {
  readonly #callId: string;
  readonly #called: CalledAs;
  readonly #custom: CustomInput | undefined;
  readonly #function = new ToolInput();
  #text = '';
  /** Part of the call's input that the client has not received yet. */
  #waiting = '';
  #place: ItemPlace | undefined;
  #head = '';

  constructor(callId: string, called: CalledAs) {
    this.#callId = callId;
    this.#called = called;
    this.#custom = called.isCustom === true ? new CustomInput() : undefined;
  }

  get isWhole(): boolean {
    return (this.#custom ?? this.#function).isWhole;
  }

  get hasStarted(): boolean {
    return this.#place !== undefined;
  }

  /** Adds text to the call's input. Throws `NodeFailure` if the input is invalid. */
  add(text: string): void {
    this.#grow((this.#custom ?? this.#function).add(text));
  }

  start(place: ItemPlace, events: ResponseEvents | undefined): void {
    this.#place = place;
    const { event } = this.#form;
    const output_index = place.outputIndex;
    this.#head = deltaHead(`${event}.delta`, { item_id: this.#itemId, output_index });
    events?.add('response.output_item.added', { output_index, item: this.#body('in_progress', '') });
  }

  write(events: ResponseEvents | undefined): void {
    if (this.#waiting !== '') events?.addDelta(this.#head, this.#waiting);
    this.#waiting = '';
  }

  /** Ends the call's input. Throws `NodeFailure` if the input is incomplete or invalid. */
  complete(): void {
    if (this.#custom !== undefined) this.#grow(this.#custom.end());
    else this.#function.value(false);
  }

  end(events: ResponseEvents | undefined): object {
    this.write(events);
    const { event, member } = this.#form;
    const output_index = this.#place?.outputIndex;
    const item = this.#body('completed', this.#text);
    events?.add(`${event}.done`, { item_id: this.#itemId, output_index, [member]: this.#text });
    events?.add('response.output_item.done', { output_index, item });
    return item;
  }

  get #form(): (typeof forms)[keyof typeof forms] {
    return this.#custom === undefined ? forms.function : forms.custom;
  }

  get #itemId(): string {
    return `${this.#form.id}_${this.#place?.unique}`;
  }

  #grow(text: string): void {
    this.#text += text;
    this.#waiting += text;
  }

  #body(status: string, text: string): object {
    const { type, member } = this.#form;
    const { name, namespace } = this.#called;
    const within = namespace === undefined ? {} : { namespace };
    return { id: this.#itemId, type, status, call_id: this.#callId, name, ...within, [member]: text };
  }
}
