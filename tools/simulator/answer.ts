/**
 * Computes the answer of a simulated node to a chat request: the tokens and finish reason of every choice, and the usage. The
 * answer depends only on the request. chat-frames.ts encodes it.
 */
import type { Dialect } from '../../schemas/names.ts';
import { parseRequestedCalls, type RequestedCall } from './asked-calls.ts';
import type { SimChatRequest, Tool } from './chat-request.ts';
import { sampleValue } from './json-sample.ts';
import { cutAtStop, echo, pieces, promptTokens, wordsAsked } from './text.ts';

/** Number of words of reasoning before an answer, if `reasoning_effort` asks for reasoning. */
const reasoningWords = 6;

/** Token of an answer. `tool` is the index of the tool call to which the token belongs. */
export interface Token {
  readonly kind: 'reasoning' | 'content' | 'tool';
  readonly text: string;
  readonly tool?: number;
}

export interface Choice {
  readonly tokens: readonly Token[];
  /** Names of the tools that the answer calls, by index. */
  readonly calls: readonly string[];
  readonly finishReason: 'stop' | 'length' | 'tool_calls';
  /** Stop sequence that ended the choice, or null if none did. */
  readonly matchedStop: string | null;
}

export interface SimUsage {
  readonly promptTokens: number;
  readonly completionTokens: number;
  readonly reasoningTokens: number;
  /** Number of prompt tokens found in the prefix cache. Absent if the node has no cache. */
  readonly cachedTokens?: number;
}

export interface Answer {
  readonly choices: readonly Choice[];
  readonly usage: SimUsage;
}

export interface AnswerSettings {
  readonly dialect: Dialect;
  readonly contextTokens: number;
  readonly answerWords: number;
}

/** Creates the answer to a request that has passed validation. */
export function createAnswer(request: SimChatRequest, settings: AnswerSettings): Answer {
  const { contextTokens, dialect } = settings;
  const prompt = Math.min(promptTokens(request.messages), contextTokens);
  const room = Math.max(contextTokens - prompt, 1);
  const budget = Math.min(request.tokensMax === undefined ? room : Math.max(request.tokensMax, 0), room);
  const wanted = dialect === 'ollama' ? 1 : request.choices;
  const calls = planCalls(request);
  const choices = Array.from({ length: wanted }, (_, index) =>
    createChoice(request, calls, budget, index, settings),
  );
  // llama.cpp reports the tokens of only one choice, even if there are several.
  const counted = dialect === 'llamacpp' ? choices.slice(0, 1) : choices;
  const tokens = counted.flatMap((choice) => choice.tokens);
  return {
    choices,
    usage: {
      promptTokens: prompt,
      completionTokens: tokens.length,
      reasoningTokens: tokens.filter((token) => token.kind === 'reasoning').length,
    },
  };
}

/** Plans the tool calls of the answer, which either the request forces or the user's text asks for. */
function planCalls(request: SimChatRequest): readonly RequestedCall[] {
  const { tools, toolChoice, userText, turnsSinceUser, parallelToolCalls } = request;
  const [first] = tools;
  if (first === undefined || toolChoice === 'none') return [];
  // Play each requested turn only once, because an agent would otherwise loop forever.
  const asked = parseRequestedCalls(userText, tools)[turnsSinceUser] ?? [];
  if (typeof toolChoice === 'object') {
    const named = tools.find(({ name }) => name === toolChoice.named);
    return named === undefined ? [] : [asked.find(({ tool }) => tool === named) ?? leastCall(named)];
  }
  const calls = asked.length === 0 && toolChoice === 'required' ? [leastCall(first)] : asked;
  return parallelToolCalls ? calls : calls.slice(0, 1);
}

function leastCall(tool: Tool): RequestedCall {
  return { tool, input: undefined };
}

function createChoice(
  request: SimChatRequest,
  asked: readonly RequestedCall[],
  budget: number,
  index: number,
  settings: AnswerSettings,
): Choice {
  const thought = request.reasoning ? echo('thinking about it', reasoningWords, 1) : [];
  const reasoning = thought.map((text): Token => ({ kind: 'reasoning', text }));
  if (asked.length > 0) {
    const spoken = asked.flatMap(({ tool, input }, call) =>
      pieces(JSON.stringify(input ?? sampleValue(tool.parameters))).map(
        (text): Token => ({ kind: 'tool', text, tool: call }),
      ),
    );
    // With vLLM, the finish reason of a forced call to a named tool is `stop`.
    const forced = settings.dialect === 'vllm' && typeof request.toolChoice === 'object';
    const calls = asked.map(({ tool }) => tool.name);
    return within(budget, [...reasoning, ...spoken], {
      calls,
      finishReason: forced ? 'stop' : 'tool_calls',
      matchedStop: null,
    });
  }
  const said = cutAtStop(spokenText(request, budget, index, settings), request.stops);
  const spoken = said.tokens.map((text): Token => ({ kind: 'content', text }));
  return within(budget, [...reasoning, ...spoken], {
    calls: [],
    finishReason: 'stop',
    matchedStop: said.matched,
  });
}

function spokenText(
  request: SimChatRequest,
  budget: number,
  index: number,
  settings: AnswerSettings,
): string[] {
  const format = request.responseFormat;
  if (format === 'json_object') return pieces('{}');
  if (format !== 'text') return pieces(JSON.stringify(sampleValue(format.schema)));
  // One word more than the budget is enough to show that the budget ended the answer.
  return echo(
    request.lastText,
    Math.min(wordsAsked(request.lastText, settings.answerWords), budget + 1),
    index,
  );
}

function within(budget: number, tokens: readonly Token[], choice: Omit<Choice, 'tokens'>): Choice {
  if (tokens.length <= budget) return { ...choice, tokens };
  return { ...choice, tokens: tokens.slice(0, budget), finishReason: 'length', matchedStop: null };
}
