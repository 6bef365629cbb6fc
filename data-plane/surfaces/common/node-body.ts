/**
 * Builds the body of a request to a node from validated fields, in the dialect of the node's engine. The body always sets a
 * token limit and requests usage. Plain messages are sent as the client wrote them. A field that the engine would ignore is
 * refused by name. If the body worker holds the prompt, this code runs on the worker.
 */
import type { ChatSettings } from '../../../schemas/api/chat-fields.ts';
import type { ChatMessage, FunctionTool, ToolChoice } from '../../../schemas/api/openai-messages.ts';
import type { Dialect } from '../../../schemas/names.ts';
import { Refusal } from '../../../shared/decision/refusal.ts';
import type { DialectTable, NodeBody } from '../../../shared/engines/dialect.ts';
import { dialects } from '../../../shared/engines/dialects.ts';
import { tokenCountRequest } from '../../../shared/engines/node-answers.ts';
import type {
  AskedChat,
  AskedRequest,
  ChatBody,
  ChatFacts,
  CountRequest,
  NodeTarget,
  WholeChat,
  WholeEmbeddings,
  WholeRequest,
  WholeRerank,
} from './asked.ts';
import { chatFieldGrants } from './chat-fields.ts';
import { writeJson } from './json-source.ts';
import { shapeRefusal } from './validate.ts';

export function renderBody(
  asked: AskedRequest,
  dialect: Dialect,
  target: NodeTarget,
): string | Promise<Uint8Array<ArrayBuffer>> {
  if (asked.workerText !== undefined) return asked.workerText.nodeBody(dialect, target);
  const body = toNodeBody(asked, dialect, target);
  return asked.kind === 'chat' ? writeChat(body, asked.source?.messages) : JSON.stringify(body);
}

/** Writes a chat's body as JSON. If `source` is set (plain messages in the client's JSON), no other field has kept text. */
function writeChat({ messages, ...rest }: NodeBody, source?: string): string {
  const others = source === undefined ? writeJson(rest) : JSON.stringify(rest);
  return `{"messages":${source ?? JSON.stringify(messages)},${others.slice(1)}`;
}

/** Builds the request that makes a node count a prompt's tokens. Returns undefined if the node cannot count them. */
export function renderCount(
  chat: AskedChat,
  dialect: Dialect,
  servedName: string,
): CountRequest | undefined | Promise<CountRequest | undefined> {
  if (chat.workerText !== undefined) return chat.workerText.countRequest(dialect, servedName);
  return countRequest(chat, dialect, servedName);
}

function countRequest(chat: WholeChat, dialect: Dialect, servedName: string): CountRequest | undefined {
  const body = undefinedIfRefused(() => toNodeBody(chat, dialect, { servedName, maxTokens: 1 }));
  const request = tokenCountRequest(dialect, body ?? {});
  if (request?.body['messages'] === undefined) return undefined;
  return { path: request.path, body: writeChat(request.body) };
}

/** Returns undefined if `render` refuses. Forwarding the request to a node will then refuse the unsupported field. */
function undefinedIfRefused<Value>(render: () => Value): Value | undefined {
  try {
    return render();
  } catch (error) {
    if (error instanceof Refusal) return undefined;
    throw error;
  }
}

/** Refusal of a field that the engine or the model does not support. It does not reveal which of the two. */
export function notForThisModel(path: Path): Refusal {
  return shapeRefusal(path, 'is not supported for this model', 'not for this model');
}

/** Builds the body for a node as an object. Throws `UnsupportedShapeError` if the dialect does not support a field. */
export function toNodeBody(asked: WholeRequest, dialect: Dialect, target: NodeTarget): NodeBody {
  const table = dialects[dialect];
  switch (asked.kind) {
    case 'chat':
      return chatBody(asked, table, target);
    case 'embeddings':
      return embeddingsBody(asked, table, target.servedName);
    case 'rerank':
      return rerankBody(asked, table, target.servedName);
    default:
      return asked satisfies never;
  }
}

function chatBody(request: WholeChat, table: DialectTable, target: NodeTarget): NodeBody {
  const { maxTokens, servedName } = target;
  // Without a valid limit, an engine might generate tokens forever.
  if (!Number.isInteger(maxTokens) || maxTokens < 1) throw new RangeError('maxTokens must be at least 1');
  refuseUngranted(request, table, target);
  const { messages, tools, tool_choice } = request.body;
  const body: Record<string, unknown> = {};
  // Assign the fields one by one. Copying them with a rest pattern would cost more than the rest of this function.
  for (const name of Object.keys(request.body) as (keyof ChatBody)[])
    if (name !== 'messages' && name !== 'tools' && name !== 'tool_choice')
      addSetting(body, name, request, table.name);
  body['model'] = servedName;
  body['messages'] = messages.map((message) => nodeMessage(message, table));
  body['max_tokens'] = maxTokens;
  if (table.takesMaxCompletionTokens) body['max_completion_tokens'] = maxTokens;
  body['stream'] = request.stream;
  if (request.stream) body['stream_options'] = streamOptions(request, table);
  if (tools !== undefined) Object.assign(body, toolFields(tools, tool_choice, table));
  if (table.takesSingleToolCall && request.needs.includes('single_tool_call'))
    body['parallel_tool_calls'] = false;
  if (request.needs.includes('prefill')) Object.assign(body, table.prefill);
  if (table.takesCacheSalt && target.cacheSalt !== undefined) body['cache_salt'] = target.cacheSalt;
  return body;
}

/** Adds a chat setting to the body. Throws `UnsupportedShapeError` if the engine does not support it or its value. */
function addSetting(
  nodeBody: Record<string, unknown>,
  field: keyof ChatSettings,
  { body, paths }: WholeChat,
  dialect: Dialect,
): void {
  const value = body[field];
  const grant = chatFieldGrants[field][dialect];
  if (grant === undefined || grant.values?.includes(value) === false)
    throw notForThisModel(paths?.[field] ?? [field]);
  nodeBody[grant.name ?? field] = value;
}

function streamOptions({ usageAtStart }: ChatFacts, table: DialectTable): NodeBody {
  const atStart = usageAtStart === true && table.reportsUsageAtStart;
  return { include_usage: true, ...(atStart ? { continuous_usage_stats: true } : {}) };
}

type Path = readonly PropertyKey[];

/** Throws `UnsupportedShapeError` if the chat needs a feature (not a setting) that the engine or model lacks. */
function refuseUngranted(
  { body, needs, paths }: WholeChat,
  table: DialectTable,
  { seesImages }: NodeTarget,
): void {
  if (needs.includes('images') && !table.refusesUnseenImages && seesImages !== true)
    throw notForThisModel(paths?.images ?? pathOfImage(body));
  if (needs.includes('prefill') && table.prefill === undefined)
    throw notForThisModel(paths?.prefill ?? ['messages', body.messages.length - 1]);
  if (!takesChoice(body.tool_choice, table)) throw notForThisModel(['tool_choice']);
}

function takesChoice(choice: ToolChoice | undefined, table: DialectTable): boolean {
  if (choice === undefined || choice === 'auto') return true;
  return typeof choice === 'string' ? table.toolChoices.includes(choice) : table.namedTool !== 'refused';
}

/** Path of the first image in the messages. */
export function pathOfImage({ messages }: ChatBody): Path {
  for (const [index, { content }] of messages.entries()) {
    if (!Array.isArray(content)) continue;
    const part = content.findIndex(({ type }) => type === 'image_url');
    if (part !== -1) return ['messages', index, 'content', part];
  }
  return ['messages'];
}

function nodeMessage(message: ChatMessage, table: DialectTable): object {
  if (message.role === 'developer') return { ...message, role: 'system' };
  if (message.role !== 'assistant') return message;
  const { reasoning, reasoning_content, refusal, content: text, ...rest } = message;
  const content = withRefusal(text, refusal);
  const thoughts = reasoning_content ?? reasoning;
  const carried: Record<string, unknown> = rest;
  // Leave out content that is null, which clients may send back in an assistant message, because no engine needs it.
  if (content !== undefined || rest.tool_calls === undefined) carried['content'] = content ?? '';
  if (thoughts !== undefined) carried[table.reasoningField] = thoughts;
  return carried;
}

type AssistantContent = Extract<ChatMessage, { readonly role: 'assistant' }>['content'];

/** Adds an assistant message's refusal to its text, because chat templates know no refusals. */
function withRefusal(content: AssistantContent, refusal: string | undefined): AssistantContent {
  if (refusal === undefined) return content;
  if (content === undefined || content === '') return refusal;
  return typeof content === 'string'
    ? `${content}\n\n${refusal}`
    : [...content, { type: 'text', text: refusal }];
}

function toolFields(
  tools: readonly FunctionTool[],
  choice: ToolChoice | undefined,
  table: DialectTable,
): NodeBody {
  if (choice === undefined) return { tools };
  if (typeof choice === 'string') {
    // Leave out the choice if the engine does not support tool choices. This means `auto`.
    return table.toolChoices.length > 1 ? { tools, tool_choice: choice } : { tools };
  }
  if (table.namedTool === 'carried') return { tools, tool_choice: choice };
  return {
    tools: tools.filter((tool) => tool.function.name === choice.function.name),
    tool_choice: 'required',
  };
}

function embeddingsBody(request: WholeEmbeddings, table: DialectTable, servedName: string): NodeBody {
  if (request.dimensions !== undefined && !table.takesDimensions) throw notForThisModel(['dimensions']);
  if (request.tokenInput && !table.takesTokenInput) throw notForThisModel(['input']);
  return {
    model: servedName,
    input: request.body.input,
    encoding_format: request.encoding,
    ...(request.dimensions === undefined ? {} : { dimensions: request.dimensions }),
  };
}

/** Builds the body of a rerank request. Leaves out `top_n` and `return_documents`, which engines treat differently. */
function rerankBody({ body }: WholeRerank, table: DialectTable, servedName: string): NodeBody {
  if (table.rerankSigns.length === 0) throw notForThisModel(['model']);
  return { model: servedName, query: body.query, documents: body.documents };
}
