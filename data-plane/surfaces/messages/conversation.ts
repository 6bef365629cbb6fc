/**
 * Converts a conversation of the Anthropic-style API to messages for a node. Adjacent turns with the same role are joined.
 * Tool results become separate messages before the rest of the user's turn, and images in tool results become part of that
 * rest. If a node's messages cannot express the order of the content, the request is refused and the refusal names the path.
 */
import type {
  AssistantBlock,
  ImageBlock,
  TextBlock,
  ToolResultBlock,
  Turn,
  UserBlock,
} from '../../../schemas/api/anthropic-messages.ts';
import type { ChatMessage } from '../../../schemas/api/openai-messages.ts';
import { writeJson } from '../common/json-source.ts';
import { shapeRefusal } from '../common/validate.ts';

export type Path = readonly PropertyKey[];

export interface Conversation {
  readonly messages: readonly ChatMessage[];
  /** Path of the first image in the body that the caller sent. */
  readonly imagePath: Path | undefined;
  /** Path in the caller's body of a final assistant turn, which the model is to continue. Undefined if there is none. */
  readonly prefillPath: Path | undefined;
}

/** Text before the result of a failed tool call, because a node's messages have no field for failures. */
const toolErrorPrefix = 'Error: ';

type ChatPart = Exclude<Extract<ChatMessage, { role: 'user' }>['content'], string>[number];
type Instructions = string | readonly TextBlock[];

interface BlockWithPath<B> {
  readonly block: B;
  readonly path: Path;
}

type MergedTurn =
  | { readonly role: 'system'; readonly blocks: BlockWithPath<TextBlock>[] }
  | { readonly role: 'user'; readonly blocks: BlockWithPath<UserBlock>[] }
  | { readonly role: 'assistant'; readonly blocks: BlockWithPath<AssistantBlock>[] };

/** Converts system instructions and turns. Throws `UnsupportedShapeError` if a node's messages cannot express them. */
export function toChatMessages(system: Instructions | undefined, turns: readonly Turn[]): Conversation {
  const messages: ChatMessage[] = [];
  const joined = joinTurns(system, turns);
  for (const turn of joined) {
    if (turn.role === 'system') messages.push(...systemMessages(turn.blocks));
    else if (turn.role === 'user') messages.push(...userMessages(turn.blocks));
    else messages.push(assistantMessage(turn.blocks));
  }
  if (messages.length === 0) throw shapeRefusal(['messages'], 'must not be empty');
  const lastPath = ['messages', turns.length - 1];
  const last = messages[messages.length - 1];
  if (last?.role === 'assistant' && last.tool_calls !== undefined) {
    throw shapeRefusal([...lastPath, 'content'], 'has a tool_use that must be answered by a tool_result');
  }
  return {
    messages,
    imagePath: findImagePath(turns),
    prefillPath: last?.role === 'assistant' ? lastPath : undefined,
  };
}

function joinTurns(system: Instructions | undefined, turns: readonly Turn[]): MergedTurn[] {
  const joined: MergedTurn[] = [];
  if (system !== undefined)
    joined.push({ role: 'system', blocks: placeBlocks<TextBlock>(system, ['system']) });
  for (const [index, turn] of turns.entries()) {
    const blocks = placeBlocks<TextBlock | UserBlock | AssistantBlock>(turn.content, [
      'messages',
      index,
      'content',
    ]);
    const last = joined[joined.length - 1];
    // The schema ensures that blocks of turns with the same role have the same types.
    if (last?.role === turn.role) (last.blocks as typeof blocks).push(...blocks);
    else joined.push({ role: turn.role, blocks } as MergedTurn);
  }
  return joined;
}

function placeBlocks<B>(
  content: string | readonly (B | TextBlock)[],
  path: Path,
): BlockWithPath<B | TextBlock>[] {
  if (typeof content === 'string') return [{ block: { type: 'text', text: content }, path }];
  return content.map((block, index) => ({ block, path: [...path, index] }));
}

/** Joins all system blocks into one message, because engines would join them without a separator. */
function systemMessages(blocks: readonly BlockWithPath<TextBlock>[]): ChatMessage[] {
  const content = joinTexts(blocks.map(({ block }) => block.text));
  return content === '' ? [] : [{ role: 'system', content }];
}

function userMessages(blocks: readonly BlockWithPath<UserBlock>[]): ChatMessage[] {
  const results: ChatMessage[] = [];
  const resultImages: ChatPart[] = [];
  const parts: ChatPart[] = [];
  for (const { block } of blocks) {
    if (block.type === 'tool_result') {
      results.push(toolMessage(block));
      for (const part of resultParts(block)) {
        if (part.type === 'image') resultImages.push(imagePart(part));
      }
    } else {
      parts.push(block.type === 'text' ? textPart(block.text) : imagePart(block));
    }
  }
  const content = [...resultImages, ...parts];
  if (content.length === 0) return results;
  return [...results, { role: 'user', content: simplest(content) }];
}

function toolMessage(block: ToolResultBlock): ChatMessage {
  const texts = resultParts(block).flatMap((part) => (part.type === 'text' ? [part.text] : []));
  const content = typeof block.content === 'string' ? block.content : joinTexts(texts);
  return {
    role: 'tool',
    tool_call_id: block.tool_use_id,
    content: block.is_error === true ? toolErrorPrefix + content : content,
  };
}

function resultParts({ content }: ToolResultBlock): readonly (TextBlock | ImageBlock)[] {
  return typeof content === 'string' || content === undefined ? [] : content;
}

type AssistantMessage = Extract<ChatMessage, { role: 'assistant' }>;
type ToolCall = NonNullable<AssistantMessage['tool_calls']>[number];

function assistantMessage(blocks: readonly BlockWithPath<AssistantBlock>[]): AssistantMessage {
  const thoughts: string[] = [];
  const parts: { type: 'text'; text: string }[] = [];
  const calls: ToolCall[] = [];
  for (const { block, path } of blocks) {
    if (block.type === 'thinking') {
      // Skip an empty block, which is reasoning that was not shown to the client.
      if (block.thinking !== '') thoughts.push(block.thinking);
    } else if (block.type === 'tool_use') {
      const called = { name: block.name, arguments: writeJson(block.input) };
      calls.push({ id: block.id, type: 'function', function: called });
    } else {
      if (calls.length > 0) throw shapeRefusal(path, 'must not follow a tool_use in the same turn');
      parts.push(textPart(block.text));
    }
  }
  return {
    role: 'assistant',
    ...(parts.length === 0 ? {} : { content: simplest(parts) }),
    ...(thoughts.length === 0 ? {} : { reasoning_content: joinTexts(thoughts) }),
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
  };
}

function joinTexts(texts: readonly string[]): string {
  return texts.join('\n\n');
}

/** Returns a single text as a string, because the templates of some text models do not support lists of parts. */
function simplest<P extends ChatPart>(parts: P[]): string | P[] {
  const [first, ...others] = parts;
  return first?.type === 'text' && others.length === 0 ? first.text : parts;
}

function textPart(text: string): { type: 'text'; text: string } {
  return { type: 'text', text };
}

function imagePart({ source }: ImageBlock): ChatPart {
  return { type: 'image_url', image_url: { url: `data:${source.media_type};base64,${source.data}` } };
}

function findImagePath(turns: readonly Turn[]): Path | undefined {
  for (const [index, turn] of turns.entries()) {
    if (turn.role !== 'user' || typeof turn.content === 'string') continue;
    for (const [at, block] of turn.content.entries()) {
      const path = ['messages', index, 'content', at];
      if (block.type === 'image') return path;
      if (block.type !== 'tool_result') continue;
      const inner = resultParts(block).findIndex(({ type }) => type === 'image');
      if (inner !== -1) return [...path, 'content', inner];
    }
  }
  return undefined;
}
