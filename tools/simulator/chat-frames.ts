/** Encodes an answer either as one JSON body or as the frames of an event stream, in the format of the imitated engine. */
import type { Dialect } from '../../schemas/names.ts';
import type { Answer, Choice, Token } from './answer.ts';
import type { SimChatRequest } from './chat-request.ts';
import { doneFrame } from './plan.ts';

export interface FrameFacts {
  readonly id: string;
  /** Time at which the answer was created, in Unix seconds. */
  readonly created: number;
  /** Name of the model as the engine returns it. */
  readonly model: string;
  readonly dialect: Dialect;
}

const answerMarks: Readonly<Record<Dialect, Readonly<Record<string, unknown>>>> = {
  vllm: {
    service_tier: null,
    system_fingerprint: 'vllm-sim',
    prompt_logprobs: null,
    kv_transfer_params: null,
  },
  sglang: { metadata: { weight_version: 'default' } },
  llamacpp: { system_fingerprint: 'b1-sim', timings: { predicted_ms: 1 } },
  ollama: { system_fingerprint: 'fp_ollama' },
};
const frameMarks: Readonly<Record<Dialect, string>> = {
  vllm: '',
  sglang: '',
  llamacpp: ',"system_fingerprint":"b1-sim"',
  ollama: ',"system_fingerprint":"fp_ollama"',
};

/** Encodes the answer to a request without streaming as one JSON body. */
export function chatBody(request: SimChatRequest, answer: Answer, facts: FrameFacts): unknown {
  const { id, created, model, dialect } = facts;
  return {
    id,
    object: 'chat.completion',
    created,
    model,
    choices: answer.choices.map((choice, index) => ({
      index,
      message: buildMessage(choice, facts),
      logprobs: logprobs(textTokens(choice), request.topLogprobs),
      finish_reason: choice.finishReason,
      ...stopMark(dialect, choice),
    })),
    usage: buildUsage(answer),
    ...answerMarks[dialect],
  };
}

/** Encodes a streamed answer. The frames are ordered like those of an engine that decodes all choices concurrently. */
export function* chatFrames(request: SimChatRequest, answer: Answer, facts: FrameFacts): Generator<string> {
  const { id, created, model, dialect } = facts;
  const fixed = JSON.stringify({ id, object: 'chat.completion.chunk', created, model }).slice(0, -1);
  const head = `data: ${fixed}${frameMarks[dialect]},"choices":[`;
  let tokens = 0;
  for (const choice of choiceFrames(request, answer, facts)) {
    if (choice.token) tokens += 1;
    const usage = request.continuousUsage ? `,"usage":${JSON.stringify(runningUsage(answer, tokens))}` : '';
    yield `${head}${JSON.stringify(choice.frame)}]${usage}}\n\n`;
  }
  if (request.includeUsage) yield `${head}],"usage":${JSON.stringify(buildUsage(answer))}}\n\n`;
  yield doneFrame;
}

/** Generates the `choices` member of each frame. `token` is set for frames that contain a token. */
function* choiceFrames(
  request: SimChatRequest,
  answer: Answer,
  facts: FrameFacts,
): Generator<{ frame: unknown; token: boolean }> {
  const choices = [...answer.choices.entries()];
  for (const [index] of choices)
    yield {
      frame: { index, delta: roleDelta(facts.dialect), logprobs: null, finish_reason: null },
      token: false,
    };
  const longest = Math.max(...answer.choices.map((choice) => choice.tokens.length));
  for (let at = 0; at < longest; at += 1) {
    for (const [index, choice] of choices)
      if (at < choice.tokens.length)
        yield { frame: tokenFrame(choice, at, index, request, facts), token: true };
  }
  for (const [index, choice] of choices) {
    yield { frame: finishFrame(choice, index, facts), token: false };
  }
}

function tokenFrame(
  choice: Choice,
  at: number,
  index: number,
  request: SimChatRequest,
  facts: FrameFacts,
): unknown {
  const token = choice.tokens[at];
  if (token === undefined) return null;
  const opens = token.kind === 'tool' && choice.tokens[at - 1]?.tool !== token.tool;
  const probabilities = token.kind === 'content' ? logprobs([token], request.topLogprobs) : null;
  return {
    index,
    delta: buildDelta(token, opens, choice, facts),
    logprobs: probabilities,
    finish_reason: null,
  };
}

function finishFrame(choice: Choice, index: number, facts: FrameFacts): unknown {
  return {
    ...{ index, delta: {}, logprobs: null, finish_reason: choice.finishReason },
    ...stopMark(facts.dialect, choice),
  };
}

function buildMessage(choice: Choice, facts: FrameFacts): Record<string, unknown> {
  const reasoning = joinTokens(choice, 'reasoning');
  const toolCalls = choice.calls.map((name, tool) => ({
    id: toolCallId(facts, tool),
    type: 'function',
    function: { name, arguments: joinTokens(choice, 'tool', tool) },
  }));
  const content = joinTokens(choice, 'content');
  return {
    role: 'assistant',
    content: choice.calls.length > 0 && facts.dialect !== 'vllm' ? null : content,
    ...(facts.dialect === 'vllm'
      ? { refusal: null, annotations: null, audio: null, function_call: null }
      : {}),
    ...(reasoning === '' ? {} : { [reasoningField(facts.dialect)]: reasoning }),
    ...(toolCalls.length > 0 ? { tool_calls: toolCalls } : {}),
  };
}

function buildDelta(
  token: Token,
  opens: boolean,
  choice: Choice,
  facts: FrameFacts,
): Record<string, unknown> {
  const role = facts.dialect === 'ollama' ? { role: 'assistant' } : {};
  if (token.kind === 'reasoning') return { ...role, [reasoningField(facts.dialect)]: token.text };
  if (token.kind === 'content') return { ...role, content: token.text };
  const index = token.tool ?? 0;
  const named = { name: choice.calls[index], arguments: token.text };
  const call = opens
    ? { index, id: toolCallId(facts, index), type: 'function', function: named }
    : { index, function: { arguments: token.text } };
  return { ...role, tool_calls: [call] };
}

function roleDelta(dialect: Dialect): Record<string, unknown> {
  return { role: 'assistant', content: dialect === 'llamacpp' ? null : '' };
}

/** Returns the name of the field for reasoning, which differs between engines. */
function reasoningField(dialect: Dialect): string {
  return dialect === 'vllm' || dialect === 'ollama' ? 'reasoning' : 'reasoning_content';
}

function toolCallId(facts: FrameFacts, tool: number): string {
  return `call_${facts.id.replace('chatcmpl-', '')}_${tool}`;
}

function stopMark(dialect: Dialect, choice: Choice): Record<string, unknown> {
  if (dialect === 'vllm') return { stop_reason: choice.matchedStop };
  return dialect === 'sglang' ? { matched_stop: choice.matchedStop } : {};
}

function textTokens(choice: Choice): Token[] {
  return choice.tokens.filter((token) => token.kind === 'content');
}

function joinTokens(choice: Choice, kind: Token['kind'], tool?: number): string {
  let text = '';
  for (const token of choice.tokens) if (token.kind === kind && token.tool === tool) text += token.text;
  return text;
}

function logprobs(tokens: readonly Token[], top: number | undefined): unknown {
  if (top === undefined) return null;
  const content = tokens.map((token) => {
    const entry = { token: token.text, logprob: -0.25, bytes: [...Buffer.from(token.text)] };
    return { ...entry, top_logprobs: Array.from({ length: Math.min(top, 20) }, () => entry) };
  });
  return { content };
}

function buildUsage(answer: Answer): unknown {
  const { promptTokens, completionTokens, reasoningTokens, cachedTokens = 0 } = answer.usage;
  return {
    prompt_tokens: promptTokens,
    total_tokens: promptTokens + completionTokens,
    completion_tokens: completionTokens,
    prompt_tokens_details: cachedTokens > 0 ? { cached_tokens: cachedTokens } : null,
    completion_tokens_details: reasoningTokens > 0 ? { reasoning_tokens: reasoningTokens } : null,
  };
}

function runningUsage(answer: Answer, sent: number): unknown {
  const { promptTokens } = answer.usage;
  return { prompt_tokens: promptTokens, total_tokens: promptTokens + sent, completion_tokens: sent };
}
