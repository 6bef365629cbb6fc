/**
 * Reads the event stream of a message as a strict client would, and throws at the first violation of this grammar:
 * message_start (content_block_start content_block_delta* content_block_stop)* message_delta message_stop. Shares no code
 * with the product's writer of such streams, so it can check the product's streams as well as those captured from engines.
 */

export interface ReadMessage {
  /** The `message` member of message_start, unchanged. */
  readonly start: Fields;
  /** Content blocks as a client assembles them. The `input` of a tool block is its JSON text. */
  readonly content: readonly Fields[];
  /** The `message_delta` event, or undefined if the stream ended before it. */
  readonly end: Fields | undefined;
  /** True if message_stop arrived. */
  readonly isComplete: boolean;
  /** Event names in order. A run of deltas of one kind appears once. */
  readonly outline: readonly string[];
}

type Fields = Record<string, unknown>;

const deltaFields: Readonly<Record<string, readonly [block: string, field: string, from: string]>> = {
  text_delta: ['text', 'text', 'text'],
  thinking_delta: ['thinking', 'thinking', 'thinking'],
  signature_delta: ['thinking', 'signature', 'signature'],
  input_json_delta: ['tool_use', 'input', 'partial_json'],
};

const stopReasons = ['end_turn', 'max_tokens', 'stop_sequence', 'tool_use', 'refusal'];

export function readMessageEvents(wire: string): ReadMessage {
  const reader = new Reader();
  for (const frame of wire.split(/\r?\n\r?\n/)) {
    if (frame.trim() !== '') reader.take(frame.trim());
  }
  return reader;
}

class Reader implements ReadMessage {
  start: Fields = {};
  readonly content: Fields[] = [];
  end: Fields | undefined;
  isComplete = false;
  readonly outline: string[] = [];
  #state: 'before' | 'between' | 'in block' | 'ended' | 'stopped' = 'before';
  #open: Fields = {};

  take(frame: string): void {
    const lines = frame.split('\n');
    if (lines.length !== 2) throw new Error(`a frame is not an event and its data: ${frame}`);
    const name = /^event: ([a-z_]+)$/.exec(lines[0] ?? '')?.[1];
    const data = JSON.parse((lines[1] ?? '').replace(/^data: /, '')) as Fields;
    if (name === undefined || data['type'] !== name) throw new Error(`the data is of another type: ${frame}`);
    if (name === 'ping') return;
    this.#note(name, data);
    if (name === 'message_start') this.#begin(data);
    else if (name === 'content_block_start') this.#openBlock(data);
    else if (name === 'content_block_delta') this.#grow(data);
    else if (name === 'content_block_stop') this.#closeBlock(data);
    else if (name === 'message_delta') this.#finish(data);
    else if (name === 'message_stop') this.#stop();
    else throw new Error(`an event has no place here: ${name}`);
  }

  #note(name: string, data: Fields): void {
    const delta = data['delta'] as Fields | undefined;
    const label = name === 'content_block_delta' ? String(delta?.['type']) : name;
    if (this.outline[this.outline.length - 1] !== label) this.outline.push(label);
  }

  #must(state: string, name: string): void {
    if (this.#state !== state) throw new Error(`${name} while ${this.#state}`);
  }

  #expect(state: string, data: Fields): void {
    this.#must(state, String(data['type']));
    const index = state === 'in block' ? this.content.length - 1 : this.content.length;
    if (data['index'] !== index)
      throw new Error(`a block is numbered ${String(data['index'])}, not ${index}`);
  }

  #begin(data: Fields): void {
    this.#must('before', 'message_start');
    const message = data['message'] as Fields;
    const isEmpty = Array.isArray(message['content']) && message['content'].length === 0;
    if (message['type'] !== 'message' || message['role'] !== 'assistant' || !isEmpty) {
      throw new Error('message_start has no empty message of the assistant');
    }
    if ((message['stop_reason'] ?? null) !== null) throw new Error('message_start has a stop reason');
    if (typeof (message['usage'] as Fields)['input_tokens'] !== 'number')
      throw new Error('there is no usage');
    this.start = message;
    this.#state = 'between';
  }

  #openBlock(data: Fields): void {
    this.#expect('between', data);
    const block = { ...(data['content_block'] as Fields) };
    const kind = String(block['type']);
    const isEmpty =
      kind === 'tool_use'
        ? JSON.stringify(block['input']) === '{}'
        : (kind === 'text' || kind === 'thinking') && block[kind] === '';
    if (!isEmpty) throw new Error(`a block does not begin empty: ${kind}`);
    if (kind === 'tool_use') {
      if (typeof block['id'] !== 'string' || typeof block['name'] !== 'string') throw new Error('no id');
      block['input'] = '';
    }
    this.#open = block;
    this.content.push(block);
    this.#state = 'in block';
  }

  #grow(data: Fields): void {
    if (this.#state !== 'in block' || data['index'] !== this.content.length - 1) {
      throw new Error(`a delta of block ${String(data['index'])}, which is not open`);
    }
    const delta = data['delta'] as Fields;
    const [kind, field, from] = deltaFields[String(delta['type'])] ?? ['', '', ''];
    if (kind === '' || kind !== this.#open['type'])
      throw new Error(`a ${String(delta['type'])} in a ${this.#open['type']}`);
    if (typeof delta[from] !== 'string') throw new Error('a delta has no text');
    this.#open[field] = String(this.#open[field] ?? '') + delta[from];
  }

  #closeBlock(data: Fields): void {
    this.#expect('in block', data);
    this.#state = 'between';
  }

  #stop(): void {
    this.#must('ended', 'message_stop');
    this.#state = 'stopped';
    this.isComplete = true;
  }

  #finish(data: Fields): void {
    this.#must('between', 'message_delta');
    const delta = data['delta'] as Fields;
    if (!stopReasons.includes(String(delta['stop_reason']))) throw new Error('no legal stop reason');
    if (typeof (data['usage'] as Fields)['output_tokens'] !== 'number') throw new Error('there is no usage');
    this.end = data;
    this.#state = 'ended';
  }
}
