/**
 * Reads the event stream of a response as a strict client would, and throws at the first violation of this grammar:
 * response.created response.in_progress (output_item.added … output_item.done)* (response.completed | response.incomplete).
 * Shares no code with the product's writer of such streams, so it can check that writer.
 */
type Fields = Readonly<Record<string, unknown>>;

export interface ReadResponse {
  /** Finished items, assembled from their deltas. */
  readonly items: readonly Fields[];
  /** Finished items, followed by the received part of an unfinished one. */
  readonly soFar: readonly Fields[];
  /** The `response` of the terminal event, or undefined if none arrived. */
  readonly end: Fields | undefined;
  /** Event names in order. A run of events with the same name appears once. */
  readonly outline: readonly string[];
}

export function readResponseEvents(wire: string): ReadResponse {
  const reader = new Reader();
  if (wire !== '' && !wire.endsWith('\n\n')) throw new Error('it does not end with a frame');
  for (const frame of wire.split('\n\n').slice(0, -1)) reader.take(frame);
  return reader;
}

/** For each event prefix, the type of the item and the member of it that grows. */
const texts: Readonly<Record<string, readonly [item: string, member: string]>> = {
  'response.output_text': ['message', 'text'],
  'response.refusal': ['message', 'refusal'],
  'response.reasoning_summary_text': ['reasoning', 'text'],
  'response.function_call_arguments': ['function_call', 'arguments'],
  'response.custom_tool_call_input': ['custom_tool_call', 'input'],
};

class Reader implements ReadResponse {
  readonly items: Fields[] = [];
  readonly outline: string[] = [];
  end: Fields | undefined;
  #sequence = 0;
  #id: unknown;
  #index = -1;
  #open: Fields | undefined;
  #part: Fields | undefined;
  #parts: Fields[] = [];
  #text = '';
  #isTextDone = false;

  get soFar(): readonly Fields[] {
    if (this.#open === undefined || 'call_id' in this.#open) return this.items;
    const parts = this.#part === undefined ? this.#parts : [...this.#parts, { text: this.#text }];
    return [...this.items, { ...this.#open, [partsOf(this.#open)]: parts }];
  }

  take(frame: string): void {
    const [, name = '', json = ''] = /^event: ([a-z_.]+)\ndata: ([^\r\n]+)$/.exec(frame) ?? [];
    const data = JSON.parse(json === '' ? 'null' : json) as Fields | null;
    if (data?.['type'] !== name) throw new Error(`a frame is not an event and its data: ${frame}`);
    if (this.end !== undefined) throw new Error(`${name} behind the terminal event`);
    if (data['sequence_number'] !== this.#sequence++) throw new Error(`${name} has another number`);
    if (this.outline.at(-1) !== name) this.outline.push(name);
    if (data['response'] !== undefined) this.#frame(name, data['response'] as Fields);
    else this.#step(name, data);
  }

  #frame(name: string, response: Fields): void {
    this.#id ??= response['id'];
    if (response['id'] !== this.#id) throw new Error('the id changes');
    const [, status] = name.split('.');
    const isStart = this.#sequence <= 2;
    if (name !== (['response.created', 'response.in_progress'][this.#sequence - 1] ?? name))
      throw new Error(`${name} is number ${this.#sequence}`);
    if (isStart) {
      if (
        response['status'] !== 'in_progress' ||
        response['usage'] !== null ||
        size(response['output']) !== 0
      )
        throw new Error(`${name} is not the beginning of a response`);
      return;
    }
    if (status !== 'completed' && status !== 'incomplete') throw new Error(`${name} has no place here`);
    if (response['status'] !== status) throw new Error(`${name} is ${String(response['status'])}`);
    if (status === 'completed' && this.#open !== undefined) throw new Error('an item has no end');
    if (JSON.stringify(response['output']) !== JSON.stringify(this.items))
      throw new Error('the items of the end are others');
    this.end = response;
  }

  #step(name: string, data: Fields): void {
    const at = name.lastIndexOf('.');
    const [stem, step] = [name.slice(0, at), name.slice(at + 1)];
    if (stem === 'response.output_item') this.#item(step, data);
    else if (data['output_index'] !== this.#index || data['item_id'] !== this.#open?.['id'])
      throw new Error(`${name} of an item that is not open`);
    else if (stem === 'response.content_part' || stem === 'response.reasoning_summary_part')
      this.#partStep(step, data);
    else this.#grow(stem, step, data);
  }

  #item(step: string, data: Fields): void {
    const item = data['item'] as Fields;
    if (typeof item['id'] !== 'string' || item['id'] === '') throw new Error('an item has no id');
    if (step === 'added') {
      if (data['output_index'] !== ++this.#index) throw new Error('an item has another place');
      // Keeps the open item, because a truncated tool call never gets its closing events.
      this.#open = item;
      this.#parts = [];
      this.#text = '';
      this.#isTextDone = false;
      const isCall = 'call_id' in item;
      if (isCall && (!item['name'] || !item['call_id'])) throw new Error('a call has no name');
      return;
    }
    if (step !== 'done' || this.#open?.['id'] !== item['id'] || this.#part !== undefined)
      throw new Error('an end of an item that is not open');
    const [member, text] = 'arguments' in item ? ['arguments', this.#text] : ['input', this.#text];
    const own = 'call_id' in item ? { [member]: text } : { [partsOf(item)]: this.#parts };
    if ('call_id' in item && !this.#isTextDone) throw new Error('a call has no end of its text');
    if (JSON.stringify({ ...item, ...own }) !== JSON.stringify(item))
      throw new Error(`an item is not what came of it: ${JSON.stringify(item)}`);
    this.items.push(item);
    this.#open = undefined;
  }

  #partStep(step: string, data: Fields): void {
    const part = data['part'] as Fields;
    const place = data['content_index'] ?? data['summary_index'];
    if (place !== this.#parts.length) throw new Error('a part has another place');
    if (step === 'added') {
      if (this.#part !== undefined) throw new Error('two parts are open');
      this.#part = part;
      this.#text = '';
      this.#isTextDone = false;
      return;
    }
    if (this.#part === undefined || !this.#isTextDone) throw new Error('a part ends before its text');
    if ((part['text'] ?? part['refusal']) !== this.#text) throw new Error('a part has another text');
    this.#parts.push(part);
    this.#part = undefined;
  }

  #grow(stem: string, step: string, data: Fields): void {
    const [item, member = ''] = texts[stem] ?? [];
    if (item === undefined || this.#open?.['type'] !== item) throw new Error(`${stem} has no place here`);
    if (item !== 'function_call' && item !== 'custom_tool_call' && this.#part === undefined)
      throw new Error('no part is open');
    if (this.#isTextDone) throw new Error('a text continues behind its end');
    if (step === 'delta') {
      if (typeof data['delta'] !== 'string' || data['delta'] === '') throw new Error('a delta has no text');
      this.#text += data['delta'];
      if (stem === 'response.output_text' && !Array.isArray(data['logprobs']))
        throw new Error('a delta has no list of log probabilities');
      return;
    }
    if (step !== 'done' || data[member] !== this.#text) throw new Error(`${stem} ends with another text`);
    this.#isTextDone = true;
  }
}

function partsOf(item: Fields): string {
  return item['type'] === 'message' ? 'content' : 'summary';
}

function size(list: unknown): number {
  return Array.isArray(list) ? list.length : -1;
}
