/** A text item of the Responses API while it grows: reasoning, or a message with parts. One part is open at a time. */
import { deltaHead, type ResponseEvents } from './response-events.ts';

export type TextKind = 'summary_text' | 'output_text' | 'refusal';

interface KindRow {
  readonly item: 'reasoning' | 'message';
  /** Names that the events use for this kind of text, for its part's index, and for the member that contains the text. */
  readonly partEvent: string;
  readonly textEvent: string;
  readonly place: string;
  readonly member: string;
}

const messagePart = { item: 'message', partEvent: 'response.content_part', place: 'content_index' } as const;

export const textKinds: Readonly<Record<TextKind, KindRow>> = {
  summary_text: {
    item: 'reasoning',
    partEvent: 'response.reasoning_summary_part',
    textEvent: 'response.reasoning_summary_text',
    place: 'summary_index',
    member: 'text',
  },
  output_text: { ...messagePart, textEvent: 'response.output_text', member: 'text' },
  refusal: { ...messagePart, textEvent: 'response.refusal', member: 'refusal' },
};

interface Part {
  readonly kind: TextKind;
  readonly place: object;
  readonly head: string;
  text: string;
  readonly logprobs: object[];
}

export interface ItemPlace {
  /** Suffix that makes the id of the item unique. */
  readonly unique: string;
  readonly outputIndex: number;
}

export class TextItem {
  readonly item: 'reasoning' | 'message';
  readonly #events: ResponseEvents | undefined;
  readonly #id: string;
  readonly #outputIndex: number;
  readonly #ended: object[] = [];
  #part: Part | undefined;

  /** Opens the item. `events` is undefined if the response is not streamed. */
  constructor(item: 'reasoning' | 'message', place: ItemPlace, events: ResponseEvents | undefined) {
    this.item = item;
    this.#events = events;
    this.#id = `${item === 'message' ? 'msg' : 'rs'}_${place.unique}`;
    this.#outputIndex = place.outputIndex;
    events?.add('response.output_item.added', {
      output_index: this.#outputIndex,
      item: this.#body([], 'in_progress', undefined),
    });
  }

  /** Whether the part that is being written contains text of this kind. */
  has(kind: TextKind): boolean {
    return this.#part?.kind === kind;
  }

  add(kind: TextKind, text: string, logprobs: readonly object[]): void {
    const part = this.#part?.kind === kind ? this.#part : this.#openPart(kind);
    part.text += text;
    if (logprobs.length > 0) {
      part.logprobs.push(...logprobs);
      const { textEvent } = textKinds[kind];
      if (text !== '') this.#events?.add(`${textEvent}.delta`, { ...part.place, delta: text, logprobs });
    } else if (text !== '') this.#events?.addDelta(part.head, text);
  }

  /** Text of the part that is being written. Reasoning has only one part, so this is then all of its text. */
  get text(): string {
    return this.#part?.text ?? '';
  }

  end(status: 'completed' | 'incomplete', sealed: string | undefined): object {
    this.#endPart();
    const item = this.#body(this.#ended, status, sealed);
    this.#events?.add('response.output_item.done', { output_index: this.#outputIndex, item });
    return item;
  }

  #body(parts: readonly object[], status: string, sealed: string | undefined): object {
    const { item: type } = this;
    if (type === 'message') return { id: this.#id, type, role: 'assistant', status, content: parts };
    const more = sealed === undefined ? {} : { encrypted_content: sealed };
    return { id: this.#id, type, summary: parts, ...more };
  }

  #openPart(kind: TextKind): Part {
    this.#endPart();
    const { partEvent, textEvent, place: placeName } = textKinds[kind];
    const place = {
      item_id: this.#id,
      output_index: this.#outputIndex,
      [placeName]: this.#ended.length,
    };
    const constant = kind === 'output_text' ? { ...place, logprobs: [] } : place;
    const head = this.#events === undefined ? '' : deltaHead(`${textEvent}.delta`, constant);
    this.#part = { kind, place, head, text: '', logprobs: [] };
    this.#events?.add(`${partEvent}.added`, { ...place, part: partBody(this.#part) });
    return this.#part;
  }

  #endPart(): void {
    const part = this.#part;
    if (part === undefined) return;
    const { partEvent, textEvent, member } = textKinds[part.kind];
    const body = partBody(part);
    const logprobs = part.kind === 'output_text' ? { logprobs: part.logprobs } : {};
    this.#events?.add(`${textEvent}.done`, { ...part.place, [member]: part.text, ...logprobs });
    this.#events?.add(`${partEvent}.done`, { ...part.place, part: body });
    this.#ended.push(body);
    this.#part = undefined;
  }
}

function partBody({ kind: type, text, logprobs }: Part): object {
  if (type === 'refusal') return { type, refusal: text };
  return type === 'summary_text' ? { type, text } : { type, text, annotations: [], logprobs };
}
