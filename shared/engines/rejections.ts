/** Reasons why engines reject requests, as fixed texts. The patterns match errors from engines and from chat templates. */
export const rejections: readonly { readonly text: RegExp; readonly reason: string }[] = [
  {
    text: /requires --(enable-auto-tool-choice|tool-call-parser|jinja)|does not support tools|tool[- _]?(use|calling) is not (supported|enabled)/i,
    reason: 'tools are not enabled for it',
  },
  {
    text: /roles must alternate|must alternate between (user|assistant)/i,
    reason: 'the roles of its messages must alternate between user and assistant',
  },
  {
    text: /system (role|message|prompt)s? (is |are )?not supported/i,
    reason: 'it does not accept system messages',
  },
  {
    text: /system (role|message|prompt) must be (at the beginning|first|the first)/i,
    reason: 'its system message must come first',
  },
  { text: /no user (query|message) found/i, reason: 'it needs a user message' },
  {
    text: /only supports single tool-calls at once/i,
    reason: 'a message may contain only one tool call',
  },
  {
    text: /does not support chat completions|default chat template is no longer allowed|does not have a chat template|chat template is not (set|defined)/i,
    reason: 'it does not answer chats',
  },
  {
    text: /does not support embeddings|not appear to be an embedding model/i,
    reason: 'it does not create embeddings',
  },
  {
    text: /logprobs is not supported with tools/i,
    reason: 'logprobs and tools cannot be combined in a stream',
  },
  {
    text: /invalid tool call arguments|function\.arguments must be valid JSON|pars\w+ (tool[- _]?call )?arguments/i,
    reason: 'the arguments of a tool call in its messages must be a JSON object',
  },
  {
    text: /(prompt|input|input content) cannot be empty|no input provided/i,
    reason: 'its prompt is empty',
  },
  {
    text: /prefill is incompatible with|2 or more assistant messages at the end/i,
    reason: 'it does not continue a final assistant message',
  },
  { text: /at most \d+ (image|multi-?modal)/i, reason: 'it accepts fewer images' },
  { text: /without a reasoning parser/i, reason: 'thinking is not enabled for it' },
  {
    text: /(load|decode|identify|process|open|read)\w* (the |an? )?(image|audio)|image: unknown format|(invalid|truncated|unsupported|corrupt\w*|broken) image|image file is truncated|illegal base64|incorrect padding/i,
    reason: 'an image of the request cannot be read',
  },
  {
    text: /(pars|compil|convert|generat|unsupported|invalid|bad)\w* (\S+ ){0,3}(grammar|schema|regex)|(grammar|schema|regex)\w* (\S+ ){0,3}(error|invalid|unsupported|not supported|too (large|complex|deep))|initialize samplers?/i,
    reason: 'a schema in the request cannot be followed',
  },
  {
    text: /jinja|chat[- _]?template|TemplateError|UndefinedError|template: :\d+:\d+|value is not (callable|iterable|a function)/i,
    reason: 'its chat template does not accept these messages',
  },
  {
    text: /json\.exception|Expecting (property name|'.' delimiter)|Unterminated string starting|invalid character .{1,8} looking for|json: cannot unmarshal/i,
    reason: 'JSON in the request cannot be read',
  },
  {
    text: /surrogates not allowed|codec can't (en|de)code|(invalid|ill-formed) utf-?8/i,
    reason: 'a text in the request is not valid Unicode',
  },
  {
    text: /not JSON compliant|unsupported value: ([+-]?Inf|NaN)/i,
    reason: 'the answer contains a value that is not a number (NaN or infinite)',
  },
  {
    text: /(payload|entity|body|request) (is )?too large/i,
    reason: 'the request is larger than its server accepts',
  },
];
