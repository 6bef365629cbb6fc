/** Routes of a simulated node. Each route turns a parsed request into a planned response like that of the imitated engine. */
import type { Dialect } from '../../schemas/names.ts';
import { createAnswer } from './answer.ts';
import { chatBody, chatFrames, type FrameFacts } from './chat-frames.ts';
import { readChatRequest } from './chat-request.ts';
import { embeddingsBody, embeddingTokens, readEmbeddingsRequest } from './embeddings.ts';
import { errorBody, type SimError } from './engine-error.ts';
import { isRecord, type Loose } from './loose.ts';
import { bodyPlan, jsonPlan, type Plan, streamPlan } from './plan.ts';
import type { PrefixCache } from './prefix-cache.ts';
import { pairTokens, readRerankRequest, rerankBody } from './rerank.ts';
import { promptTokens, textTokens } from './text.ts';
import { badRequest, chatFault, exceedsContext, unknownModel } from './validate.ts';

/** State of the simulated engine when a request arrives. */
export interface SimEngine {
  readonly dialect: Dialect;
  readonly models: readonly string[];
  readonly imageModels: readonly string[];
  readonly reranks: boolean;
  readonly contextTokens: number;
  /** Number of tokens generated per second. With 0, responses are sent as fast as the client reads. */
  readonly tokensPerSecond: number;
  readonly answerWords: number;
  readonly prefixCache?: PrefixCache | undefined;
  /** Number of uncached prompt tokens read per second. With 0, reading a prompt takes no time. */
  readonly promptTokensPerSecond: number;
}

/** Values that make each response unique. */
export interface Stamp {
  /** Unique part of the ids in a response. */
  readonly serial: string;
  /** Creation time that the response reports, in Unix seconds. */
  readonly created: number;
}

const owners: Readonly<Record<Dialect, string>> = {
  vllm: 'vllm',
  sglang: 'sglang',
  llamacpp: 'llamacpp',
  ollama: 'library',
};
/** Maximum number of token ids in a response to `/tokenize`. */
const tokensListedMax = 2 ** 20;
/** Time at which the models are said to have been loaded (2026-01-01), in Unix seconds. */
const loadedAt = 1_767_225_600;

export function answerGet(path: string, engine: SimEngine): Plan {
  const { dialect } = engine;
  if (path === '/v1/models') return jsonPlan(200, listing(engine));
  const id = path.startsWith('/v1/models/') ? decoded(path.slice('/v1/models/'.length)) : undefined;
  if (id !== undefined && engine.models.includes(id) && (dialect === 'sglang' || dialect === 'ollama'))
    return jsonPlan(200, modelEntry(id, engine));
  if (path === '/model_info' && dialect === 'sglang') return jsonPlan(200, modelInfo(engine));
  return statusAnswer(path, dialect) ?? notFound(path, engine);
}

/** Plans the response to a POST request whose body is a JSON object. */
export function answerPost(path: string, body: Loose, engine: SimEngine, stamp: Stamp): Plan {
  const { dialect } = engine;
  if (path === '/v1/rerank' && hasRoute(path, engine)) return rerank(body, engine, stamp);
  if (path === '/v1/chat/completions' && hasRoute(path, engine)) return chat(body, engine, stamp);
  if (path === '/v1/embeddings' && hasRoute(path, engine)) return embeddings(body, engine, stamp);
  if (path === '/tokenize' && dialect !== 'ollama') return tokenize(body, engine);
  if (path === '/v1/chat/completions/input_tokens' && dialect === 'llamacpp')
    return jsonPlan(200, { input_tokens: promptTokens(readMessages(body)), object: 'response.input_tokens' });
  if (path === '/api/show' && dialect === 'ollama') return modelDetails(body, engine);
  return notFound(path, engine);
}

/** Plans an error response of the engine. */
export function refuse(dialect: Dialect, error: SimError): Plan {
  return jsonPlan(error.status, errorBody(dialect, error));
}

function chat(body: Loose, engine: SimEngine, stamp: Stamp): Plan {
  const { dialect } = engine;
  const request = readChatRequest(body, dialect !== 'ollama');
  const model = served(request.model, engine);
  if (model === undefined) return refuse(dialect, unknownModel(dialect, request.model, engine.models));
  const fault = chatFault(body, request, promptTokens(request.messages), engine);
  if (fault !== undefined) return refuse(dialect, fault);
  const answer = createAnswer(request, engine);
  const cachedTokens = engine.prefixCache?.read(body, request.messages) ?? 0;
  const facts: FrameFacts = {
    id: `chatcmpl-${stamp.serial}`,
    created: stamp.created,
    model,
    dialect,
  };
  const gapMs = engine.tokensPerSecond === 0 ? 0 : 1000 / engine.tokensPerSecond;
  const { promptTokens: read, completionTokens } = answer.usage;
  const speed = engine.promptTokensPerSecond;
  const promptMs = speed === 0 ? 0 : (1000 * Math.max(0, read - cachedTokens)) / speed;
  const counted = { ...answer, usage: { ...answer.usage, cachedTokens } };
  const work = { id: facts.id, promptTokens: read, completionTokens };
  if (request.stream)
    return { ...streamPlan(chatFrames(request, counted, facts), gapMs), work, firstPartMs: promptMs + gapMs };
  return {
    ...jsonPlan(200, chatBody(request, counted, facts)),
    work,
    firstPartMs: promptMs + gapMs * completionTokens,
  };
}

function embeddings(body: Loose, engine: SimEngine, stamp: Stamp): Plan {
  const { dialect, contextTokens } = engine;
  const asked = typeof body.model === 'string' ? body.model : '';
  const model = served(asked, engine);
  if (model === undefined) return refuse(dialect, unknownModel(dialect, asked, engine.models));
  const request = readEmbeddingsRequest(body, dialect);
  if (request === undefined) return refuse(dialect, badRequest('You must pass at least one prompt'));
  const longest = Math.max(...request.inputs.map((input) => embeddingTokens([input])));
  if (longest > contextTokens && dialect !== 'ollama') {
    const fault = badRequest(
      `This model's maximum context length is ${contextTokens} tokens.`,
      'input_tokens',
    );
    // llama.cpp reports a prompt that is too long as an internal error.
    return refuse(dialect, dialect === 'llamacpp' ? { ...fault, status: 500 } : fault);
  }
  const id = `embd-${stamp.serial}`;
  const work = { id, promptTokens: embeddingTokens(request.inputs), completionTokens: 0 };
  return { ...jsonPlan(200, embeddingsBody(request, id, stamp.created, model)), work };
}

function rerank(body: Loose, engine: SimEngine, stamp: Stamp): Plan {
  const { dialect, contextTokens, reranks } = engine;
  if (dialect === 'llamacpp' && !reranks)
    return refuse(dialect, {
      status: 501,
      message: 'This server does not support reranking.',
      type: notSupported,
    });
  const request = readRerankRequest(body);
  if (request === undefined) return refuse(dialect, badRequest('"query" must be provided'));
  const asked = typeof body.model === 'string' ? body.model : '';
  const model = served(asked, engine);
  if (model === undefined) return refuse(dialect, unknownModel(dialect, asked, engine.models));
  const tokens = pairTokens(request);
  const longest = Math.max(...tokens);
  if (longest > contextTokens) return refuse(dialect, exceedsContext(dialect, longest, contextTokens));
  const id = `rerank-${stamp.serial}`;
  const work = { id, promptTokens: tokens.reduce((sum, one) => sum + one, 0), completionTokens: 0 };
  return { ...jsonPlan(200, rerankBody(request, dialect, id, model)), work };
}

const notSupported = 'not_supported_error';

/** Whether the engine has this route. vLLM has only routes that its model supports, and Ollama cannot rerank. */
function hasRoute(path: string, { dialect, reranks }: SimEngine): boolean {
  if (dialect === 'vllm') return (path === '/v1/rerank') === reranks;
  return dialect !== 'ollama' || path !== '/v1/rerank';
}

/** Returns SGLang's description of its model, reduced to the fields that show the model's purpose. */
function modelInfo({ reranks }: SimEngine): unknown {
  const architecture = reranks ? 'XLMRobertaForSequenceClassification' : 'LlamaForCausalLM';
  return { model_path: 'sim', is_generation: !reranks, architectures: [architecture] };
}

function tokenize(body: Loose, engine: SimEngine): Plan {
  const text = engine.dialect === 'llamacpp' ? body.content : body['prompt'];
  const count = typeof text === 'string' ? textTokens(text) : promptTokens(readMessages(body));
  const tokens = Array.from({ length: Math.min(count, tokensListedMax) }, (_, index) => index);
  if (engine.dialect === 'llamacpp') return jsonPlan(200, { tokens });
  return jsonPlan(200, { count, max_model_len: engine.contextTokens, tokens, token_strs: null });
}

/** Returns the model name that the engine's response contains, or undefined if the engine refuses the model. */
function served(asked: string, engine: SimEngine): string | undefined {
  const { dialect, models } = engine;
  const [first] = models;
  if (first === undefined || models.includes(asked)) return first === undefined ? undefined : asked;
  // SGLang and llama.cpp accept any model name.
  if (dialect === 'llamacpp') return first;
  if (dialect === 'sglang') return asked === '' ? first : asked;
  return dialect === 'vllm' && asked === '' ? first : undefined;
}

function readMessages(body: Loose): readonly unknown[] {
  return Array.isArray(body['messages']) ? body['messages'].filter(isRecord) : [];
}

function listing(engine: SimEngine): unknown {
  return { object: 'list', data: engine.models.map((id) => modelEntry(id, engine)) };
}

function modelEntry(id: string, engine: SimEngine): unknown {
  const entry = { id, object: 'model', created: loadedAt, owned_by: owners[engine.dialect] };
  if (engine.dialect === 'ollama') return entry;
  if (engine.dialect === 'llamacpp') return { ...entry, meta: { n_ctx: engine.contextTokens } };
  return { ...entry, root: id, parent: null, max_model_len: engine.contextTokens };
}

/** Plans the response in which Ollama describes one model. Weights and templates are left out. */
function modelDetails(body: Loose, engine: SimEngine): Plan {
  const { imageModels } = engine;
  const model = typeof body.model === 'string' ? body.model : '';
  if (!engine.models.includes(model)) return jsonPlan(404, { error: `model '${model}' not found` });
  const capabilities = ['completion', ...(imageModels.includes(model) ? ['vision'] : [])];
  return jsonPlan(200, {
    modelfile: '',
    template: '',
    details: { family: 'sim' },
    model_info: {},
    capabilities,
  });
}

/** Plans the response to a request for health or version. Returns undefined if the engine does not have the path. */
function statusAnswer(path: string, dialect: Dialect): Plan | undefined {
  switch (`${dialect} ${path}`) {
    case 'vllm /health':
    case 'sglang /health':
      return bodyPlan(200, '', 'text/plain');
    case 'llamacpp /health':
      return jsonPlan(200, { status: 'ok' });
    case 'vllm /version':
      return jsonPlan(200, { version: '0.32.0' });
    case 'llamacpp /props':
      return jsonPlan(200, { default_generation_settings: {}, build_info: 'b11669' });
    case 'sglang /get_server_info':
      return jsonPlan(200, { model_path: 'sim', internal_states: [] });
    case 'sglang /':
      return jsonPlan(200, 'SGLang is running');
    case 'ollama /':
      return bodyPlan(200, 'Ollama is running', 'text/plain; charset=utf-8');
    case 'ollama /api/version':
      return jsonPlan(200, { version: '0.0.0' });
    default:
      return undefined;
  }
}

const postPaths: readonly string[] = ['/v1/chat/completions', '/v1/embeddings', '/v1/rerank'];

function notFound(path: string, engine: SimEngine): Plan {
  const { dialect } = engine;
  if (dialect === 'ollama') return bodyPlan(404, '404 page not found', 'text/plain');
  if (dialect === 'llamacpp')
    return refuse(dialect, { status: 404, message: 'File Not Found', type: 'not_found_error' });
  const wrongMethod = path === '/tokenize' || (postPaths.includes(path) && hasRoute(path, engine));
  return wrongMethod
    ? jsonPlan(405, { detail: 'Method Not Allowed' }, { allow: 'POST' })
    : jsonPlan(404, { detail: 'Not Found' });
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
