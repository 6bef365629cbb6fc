/**
 * Converts the input items of a request to messages for a node. All instructions become one system message at the start,
 * because templates refuse or drop a second one. Consecutive reasoning, texts and calls of the assistant become one message.
 * The outputs of these calls follow directly, and then everything that came between them.
 */
import type { ChatMessage } from '../../../schemas/api/openai-messages.ts';
import type { ResponsesFields } from '../../../schemas/api/responses.ts';
import type {
  InputItem,
  InputMessage,
  ReasoningItem,
  UserContent,
} from '../../../schemas/api/responses-items.ts';
import { CallArguments } from '../common/call-arguments.ts';
import { shapeRefusal } from '../common/validate.ts';
import { customArguments, nodeName } from './offered-tools.ts';
import { openThoughts } from './sealed-thoughts.ts';

type Path = readonly PropertyKey[];

export interface InputChat {
  readonly messages: readonly ChatMessage[];
  /** Path of the first image in the body that the caller sent. */
  readonly imagePath: Path | undefined;
  /** Path in the caller's body of a final assistant item, which the model is to continue. Undefined if there is none. */
  readonly prefillPath: Path | undefined;
}

type ChatPart = Exclude<Extract<ChatMessage, { role: 'user' }>['content'], string>[number];
type ToolCall = NonNullable<Extract<ChatMessage, { role: 'assistant' }>['tool_calls']>[number];
type CallItem = Extract<InputItem, { readonly type: 'function_call' | 'custom_tool_call' }>;
type OutputItem = Extract<InputItem, { readonly output: unknown }>;

/** Converts the input. `sealKey` decrypts reasoning from earlier responses. Throws `UnsupportedShapeError`. */
export function toConversation(fields: ResponsesFields, sealKey: string | undefined): InputChat {
  const { input, instructions } = fields;
  const reader = new ItemReader(instructions, sealKey);
  if (typeof input === 'string') reader.message({ type: 'message', role: 'user', content: input }, ['input']);
  else for (const [index, item] of input.entries()) reader.read(item, ['input', index]);
  const { messages, imagePath } = reader.end();
  const isPrefill = messages[messages.length - 1]?.role === 'assistant';
  return { messages, imagePath, prefillPath: isPrefill ? ['input', input.length - 1] : undefined };
}

/** Consecutive items by the assistant, together with the outputs of its tool calls. */
class Turn {
  readonly thoughts: string[] = [];
  readonly texts: string[] = [];
  readonly calls: ToolCall[] = [];
  /** Paths, in the caller's body, of the tool calls that have no output yet, by call id. */
  readonly open = new Map<string, Path>();
  readonly outputs: ChatMessage[] = [];
  /** User messages that must follow the calls' outputs: those sent before the last output, and images in outputs. */
  readonly later: ChatMessage[] = [];

  /** Whether a further item by the assistant would still belong to this turn. */
  get isOpen(): boolean {
    return this.outputs.length === 0 || this.open.size > 0;
  }

  messages(): ChatMessage[] {
    const { thoughts, texts, calls } = this;
    const message: ChatMessage = {
      role: 'assistant',
      ...(texts.length === 0 ? {} : { content: joinTexts(texts) }),
      ...(thoughts.length === 0 ? {} : { reasoning_content: joinTexts(thoughts) }),
      ...(calls.length === 0 ? {} : { tool_calls: calls }),
    };
    return [message, ...this.outputs, ...this.later];
  }
}

class ItemReader {
  readonly #sealKey: string | undefined;
  readonly #instructions: string[];
  readonly #messages: ChatMessage[] = [];
  readonly #callIds = new Set<string>();
  readonly #arguments = new CallArguments();
  #turn: Turn | undefined;
  #imagePath: Path | undefined;

  constructor(instructions: string | undefined, sealKey: string | undefined) {
    this.#instructions = instructions === undefined ? [] : [instructions];
    this.#sealKey = sealKey;
  }

  read(item: InputItem, path: Path): void {
    switch (item.type) {
      case 'message':
        this.message(item, path);
        return;
      case 'function_call':
      case 'custom_tool_call':
        this.#call(item, path);
        return;
      case 'function_call_output':
      case 'custom_tool_call_output':
        this.#output(item, path);
        return;
      case 'reasoning': {
        const thoughts = this.#thoughtsOf(item);
        if (thoughts !== '') this.#said().thoughts.push(thoughts);
        return;
      }
      case 'item_reference':
        return;
      default:
        item satisfies never;
    }
  }

  message(item: InputMessage, path: Path): void {
    switch (item.role) {
      case 'system':
      case 'developer':
        this.#instructions.push(joinText(item.content));
        return;
      case 'assistant':
        this.#said().texts.push(joinText(item.content));
        return;
      case 'user': {
        const content = this.#userContent(item.content, [...path, 'content']);
        const waits = this.#turn !== undefined && this.#turn.open.size > 0;
        if (!waits) this.#endTurn();
        (waits ? (this.#turn as Turn).later : this.#messages).push({ role: 'user', content });
        return;
      }
      default:
        item satisfies never;
    }
  }

  end(): { readonly messages: readonly ChatMessage[]; readonly imagePath: Path | undefined } {
    for (const path of this.#turn?.open.values() ?? [])
      throw shapeRefusal([...path, 'call_id'], 'must be answered by an output of the same call_id');
    this.#endTurn();
    const instructions = joinTexts(this.#instructions.filter((text) => text !== ''));
    const system: ChatMessage[] = instructions === '' ? [] : [{ role: 'system', content: instructions }];
    const messages = [...system, ...this.#messages];
    if (messages.length === 0) throw shapeRefusal(['input'], 'must not be empty');
    return { messages, imagePath: this.#imagePath };
  }

  #said(): Turn {
    if (this.#turn?.isOpen === false) this.#endTurn();
    this.#turn ??= new Turn();
    return this.#turn;
  }

  #endTurn(): void {
    if (this.#turn !== undefined) this.#messages.push(...this.#turn.messages());
    this.#turn = undefined;
  }

  #call(item: CallItem, path: Path): void {
    const { call_id: id, name, namespace } = item;
    if (this.#callIds.has(id)) throw shapeRefusal([...path, 'call_id'], 'is the call_id of another call');
    this.#callIds.add(id);
    const turn = this.#said();
    if (item.type === 'function_call') this.#arguments.check(item.arguments, [...path, 'arguments']);
    const given = item.type === 'function_call' ? item.arguments : customArguments(item.input);
    turn.open.set(id, path);
    turn.calls.push({
      id,
      type: 'function',
      function: { name: nodeName(name, namespace), arguments: given },
    });
  }

  /** Adds a call's output. Its images follow in a user message, because tool messages cannot contain images. */
  #output({ call_id: id, output }: OutputItem, path: Path): void {
    const turn = this.#turn;
    if (turn?.open.delete(id) !== true)
      throw shapeRefusal([...path, 'call_id'], 'must be the call_id of an earlier call without output');
    const content = this.#userContent(output, [...path, 'output']);
    const parts = typeof content === 'string' ? [] : content;
    const images = parts.filter((part) => part.type === 'image_url');
    const texts = parts.flatMap((part) => (part.type === 'text' ? [part.text] : []));
    const text = typeof content === 'string' ? content : joinTexts(texts);
    turn.outputs.push({ role: 'tool', tool_call_id: id, content: text });
    if (images.length > 0) turn.later.push({ role: 'user', content: images });
  }

  /** Returns the decrypted reasoning, or else its plain text. If both are missing, returns an empty text. */
  #thoughtsOf({ encrypted_content: sealed, content, summary }: ReasoningItem): string {
    const opened =
      sealed === undefined || this.#sealKey === undefined ? undefined : openThoughts(sealed, this.#sealKey);
    return opened ?? joinTexts((content ?? summary ?? []).map(({ text }) => text));
  }

  /** Converts content. Returns a single text as a string, because templates of text models do not support lists of parts. */
  #userContent(content: UserContent, path: Path): string | ChatPart[] {
    if (typeof content === 'string') return content;
    const parts = content.map((part, index): ChatPart => {
      if (part.type === 'input_text') return { type: 'text', text: part.text };
      this.#imagePath ??= [...path, index];
      return { type: 'image_url', image_url: { url: part.image_url } };
    });
    const [first, ...others] = parts;
    return first?.type === 'text' && others.length === 0 ? first.text : parts;
  }
}

function joinText(
  content: Extract<InputMessage, { role: 'assistant' | 'system' | 'developer' }>['content'],
): string {
  if (typeof content === 'string') return content;
  return joinTexts(content.map((part) => (part.type === 'refusal' ? part.refusal : part.text)));
}

function joinTexts(texts: readonly string[]): string {
  return texts.join('\n\n');
}
