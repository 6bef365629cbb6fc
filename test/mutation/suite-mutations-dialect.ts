/** Mutations of what engines are sent and say. */
import { mutationsOf as of, type SuiteMutation } from './suite-runner.ts';

export const dialectMutations: readonly SuiteMutation[] = [
  ...of(
    'data-plane/dialect/node-body.ts',
    ['data-plane/dialect/node-body.test.ts'],
    [
      [
        'the node gets its own name for the model',
        "body['model'] = servedName;",
        "body['model'] = request.model;",
      ],
      ['a limit of tokens is always sent', "  body['max_tokens'] = maxTokens;\n", ''],
      [
        'a limit is at least 1',
        'if (!Number.isInteger(maxTokens) || maxTokens < 1) throw',
        'if (maxTokens < 0) throw',
      ],
      [
        'an engine that heeds the other name gets the limit by it',
        'if (table.takesMaxCompletionTokens)',
        'if (table.takesSingleToolCall === undefined)',
      ],
      ['usage is always asked for', 'return { include_usage: true,', 'return { include_usage: false,'],
      ['one call at a time is asked for', "request.needs.includes('single_tool_call')", 'false'],
      [
        'a continued message is asked for',
        "  if (request.needs.includes('prefill')) Object.assign(body, table.prefill);\n",
        '',
      ],
      ['what is not granted is refused', 'grant === undefined || ', ''],
      ['only the values that are granted are sent', 'grant.values?.includes(value) === false', 'false'],
      ['an image goes only where it is seen', '!table.refusesUnseenImages && seesImages !== true', 'false'],
      [
        'a prefill is refused where it has no effect',
        "needs.includes('prefill') && table.prefill === undefined",
        'false',
      ],
      [
        'a choice of tools is refused where it has no effect',
        'if (!takesChoice(body.tool_choice, table)) throw',
        'if (takesChoice(undefined, table) === false) throw',
      ],
      ['developer is system', "if (message.role === 'developer') return { ...message, role: 'system' };", ''],
      [
        'thoughts go by the name of the engine',
        'carried[table.reasoningField] = thoughts',
        "carried['reasoning'] = thoughts",
      ],
      ['a refusal is sent as text', '\\n\\n$', '$'],
      [
        'only the named tool is sent where no name is',
        'tools.filter((tool) => tool.function.name === choice.function.name)',
        'tools',
      ],
      ['some tool is required where no name is', "tool_choice: 'required',", "tool_choice: 'auto',"],
      [
        'an engine that knows no choice is sent none',
        'table.toolChoices.length > 1 ? { tools, tool_choice: choice }',
        'true ? { tools, tool_choice: choice }',
      ],
      [
        'dimensions are refused where they have no effect',
        'request.dimensions !== undefined && !table.takesDimensions',
        'false',
      ],
      [
        'token ids are refused where they are not read',
        'request.tokenInput && !table.takesTokenInput',
        'false',
      ],
      ['the encoding is sent', 'encoding_format: request.encoding,', ''],
      [
        'dimensions are sent',
        '...(request.dimensions === undefined ? {} : { dimensions: request.dimensions }),',
        '',
      ],
    ],
  ),
  ...of(
    'data-plane/dialect/node-body.ts',
    ['data-plane/surfaces/messages/shape-messages.test.ts'],
    [
      ['a refusal names the path of the caller’s own body', 'paths?.[field] ?? [field]', '[field]'],
      [
        'a setting is sent by the name that the engine has',
        'nodeBody[grant.name ?? field]',
        'nodeBody[field]',
      ],
    ],
  ),
  ...of(
    'data-plane/dialect/node-errors.ts',
    ['data-plane/dialect/node-errors.test.ts'],
    [
      [
        'what a model cannot do is refused',
        'return found && notForThisModel(',
        'return undefined && notForThisModel(',
      ],
      [
        'a schema of tools is named as theirs',
        "hasSchema ? (paths.response_format ?? ['response_format']) : ['tools']",
        "paths.response_format ?? ['response_format']",
      ],
      ['a path is of the caller’s own body', 'paths.response_format ?? ', ''],
      ['an effort is named by the caller’s own path', 'paths.reasoning_effort ?? ', ''],
      [
        'dimensions of embeddings are named',
        "inability === 'dimensions' ? 'dimensions' : 'input'",
        "'input'",
      ],
      ['an image is named by its place', 'asked.workerText === undefined ? pathOfImage(asked.body) : ', ''],
    ],
  ),
  ...of(
    'data-plane/dialect/node-body.ts',
    ['data-plane/upstream/count-tokens.test.ts'],
    [
      ['what cannot be carried is not counted', 'if (error instanceof Refusal) return undefined;', ''],
      [
        'an engine without a counter is asked nothing',
        "if (request?.body['messages'] === undefined) return undefined;",
        'if (request === undefined) throw new Error();',
      ],
    ],
  ),
  ...of(
    'shared/engines/ollama.ts',
    ['data-plane/dialect/node-body.test.ts'],
    [
      ['Ollama drops images', 'refusesUnseenImages: false', 'refusesUnseenImages: true'],
      ['Ollama heeds no choice of tools', "toolChoices: ['auto']", "toolChoices: ['auto', 'required']"],
      ['Ollama heeds no named tool', "namedTool: 'refused'", "namedTool: 'carried'"],
      ['Ollama continues no message', 'prefill: undefined', 'prefill: {}'],
      ['Ollama reads no token ids', 'takesTokenInput: false', 'takesTokenInput: true'],
      [
        'Ollama calls thoughts reasoning',
        "reasoningField: 'reasoning'",
        "reasoningField: 'reasoning_content'",
      ],
      ['Ollama heeds no single call', 'takesSingleToolCall: false', 'takesSingleToolCall: true'],
    ],
  ),
  ...of(
    'shared/engines/llamacpp.ts',
    ['data-plane/dialect/node-body.test.ts'],
    [
      ['llama.cpp takes a named tool as none', "namedTool: 'as-required'", "namedTool: 'carried'"],
      ['llama.cpp ignores dimensions', 'takesDimensions: false', 'takesDimensions: true'],
      [
        'llama.cpp calls thoughts reasoning_content',
        "reasoningField: 'reasoning_content'",
        "reasoningField: 'reasoning'",
      ],
      ['llama.cpp heeds no single call', 'takesSingleToolCall: false', 'takesSingleToolCall: true'],
    ],
  ),
  ...of(
    'shared/engines/vllm.ts',
    ['data-plane/dialect/node-body.test.ts'],
    [
      [
        'vLLM continues the message it is asked to',
        'prefill: { continue_final_message: true, add_generation_prompt: false }',
        'prefill: { continue_final_message: true }',
      ],
      ['vLLM takes a named tool', "namedTool: 'carried'", "namedTool: 'as-required'"],
      ['vLLM calls thoughts reasoning', "reasoningField: 'reasoning'", "reasoningField: 'reasoning_content'"],
      [
        'vLLM heeds max_completion_tokens first',
        'takesMaxCompletionTokens: true',
        'takesMaxCompletionTokens: false',
      ],
      ['vLLM heeds a single call', 'takesSingleToolCall: true', 'takesSingleToolCall: false'],
    ],
  ),
  ...of(
    'shared/engines/sglang.ts',
    ['data-plane/dialect/node-body.test.ts'],
    [
      [
        'SGLang continues the message it is asked to',
        'prefill: { continue_final_message: true }',
        'prefill: {}',
      ],
      ['SGLang takes a named tool as any', "namedTool: 'as-required'", "namedTool: 'carried'"],
      [
        'SGLang calls thoughts reasoning_content',
        "reasoningField: 'reasoning_content'",
        "reasoningField: 'reasoning'",
      ],
    ],
  ),
  ...of(
    'shared/engines/chat-fields.ts',
    ['test/docs.test.ts'],
    [
      ['Ollama takes no logit_bias', 'logit_bias: allButOllama', 'logit_bias: all'],
      ['Ollama and llama.cpp make one answer', 'n: { vllm: asItComes, sglang: asItComes }', 'n: all'],
      ['Ollama heeds no penalties', 'ollama: { values: [0] }', 'ollama: asItComes'],
      [
        'Ollama has its own efforts',
        "['none', 'low', 'medium', 'high']",
        "['none', 'minimal', 'low', 'medium', 'high']",
      ],
    ],
  ),
  ...of(
    'shared/engines/chat-fields.ts',
    ['data-plane/surfaces/messages/shape-messages.test.ts'],
    [
      ['Ollama takes no top_k', 'top_k: allButOllama', 'top_k: all'],
      [
        'vLLM has its own name for a budget of thoughts',
        "'thinking_token_budget'",
        "'thinking_budget_tokens'",
      ],
      [
        'SGLang knows no budget of thoughts',
        '  thinking_budget: {\n',
        '  thinking_budget: {\n    sglang: asItComes,\n',
      ],
    ],
  ),
  ...of(
    'shared/engines/vllm.ts',
    ['data-plane/surfaces/messages/shape-messages.test.ts'],
    [
      [
        'vLLM counts the prompt at the start of a stream',
        'reportsUsageAtStart: true',
        'reportsUsageAtStart: false',
      ],
    ],
  ),
  ...of(
    'shared/engines/node-answers.ts',
    ['shared/engines/node-answers.test.ts'],
    [
      [
        'the window of an error is read',
        'found[1] === undefined ? undefined : Number(found[1])',
        'undefined',
      ],
      ['a flat error is read', 'const holder = inner ?? error;', 'const holder = inner;'],
      ['an error that is a text is read', "if (typeof inner === 'string') return inner;", ''],
      ['a count is a number of tokens', 'Number.isSafeInteger(value) && value > 0', 'value > 0'],
      ['a model that is not loaded is not served', ' || !isLoaded(entry)', ''],
      [
        'a tag that is left out means the latest',
        "dialect === 'ollama' && name.endsWith(':latest')",
        'false',
      ],
      ['the window of a model is read', "member(entry, 'max_model_len') ?? ", ''],
      [
        'a count is asked with what counts',
        'for (const field of counter.fields) {',
        'for (const field of Object.keys(body)) {',
      ],
    ],
  ),
];
