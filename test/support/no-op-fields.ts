/**
 * Fields of requests that are accepted and have no effect here, which docs/api.md lists (test/docs.test.ts writes it) and the tests of
 * the shapes try.
 */

interface NoOpField {
  readonly path: string;
  /** Which values are accepted, and why none has an effect. */
  readonly text: string;
}

const noMarker = 'Any text. No identity is passed to a node.';
const noCache = 'A hint to a prompt cache; nodes cache by content on their own.';

export const noOpFields: Readonly<Record<'chat' | 'embeddings', readonly NoOpField[]>> = {
  chat: [
    { path: 'user', text: noMarker },
    { path: 'safety_identifier', text: noMarker },
    { path: 'prompt_cache_retention', text: noCache },
    { path: 'prompt_cache_options', text: noCache },
    { path: 'service_tier', text: '`auto` or `default`: there is one class of service.' },
    { path: 'store', text: '`false`: nothing is ever stored.' },
    { path: 'verbosity', text: '`medium`, the default.' },
    { path: 'modalities', text: '`["text"]`, the default.' },
    { path: 'stream_options.include_obfuscation', text: 'No padding is added to a stream.' },
    { path: 'messages[].content[].prompt_cache_breakpoint', text: noCache },
    { path: 'messages[].content[].image_url.detail', text: 'The model decides how finely it looks.' },
    { path: 'messages[].tool_calls[].index', text: 'The place in the list counts.' },
  ],
  embeddings: [{ path: 'user', text: noMarker }],
};

const noCacheReported =
  'A hint to a prompt cache; nodes cache by content on their own, and usage reports what they found.';

const promptNoOps: readonly NoOpField[] = [
  { path: 'cache_control', text: noCacheReported },
  { path: 'system[].cache_control', text: noCacheReported },
  { path: 'messages[].content[].cache_control', text: noCacheReported },
  { path: 'messages[].content[].content[].cache_control', text: noCacheReported },
  { path: 'tools[].cache_control', text: noCacheReported },
  { path: 'messages[].content[].signature', text: 'Any text: thoughts are taken as they are.' },
  { path: 'messages[].content[].caller', text: '`{"type":"direct"}`: the model itself made the call.' },
  { path: 'tools[].eager_input_streaming', text: 'The input of a tool always streams as it comes.' },
  { path: 'tools[].defer_loading', text: '`false`, the default.' },
  { path: 'tools[].allowed_callers', text: '`["direct"]`, the default.' },
  { path: 'context_management', text: 'No edits, or `clear_thinking` with `keep: "all"`: nothing changes.' },
  {
    path: 'output_config.effort',
    text: 'With `thinking: {"type":"disabled"}` only: it has nothing to set.',
  },
  { path: 'speed', text: '`standard`: there is one speed.' },
];

export const anthropicNoOpFields: Readonly<Record<'messages' | 'count_tokens', readonly NoOpField[]>> = {
  messages: [
    ...promptNoOps,
    { path: 'metadata.user_id', text: 'Any text. No identity is passed to a node.' },
    { path: 'service_tier', text: '`auto` or `standard_only`: there is one class of service.' },
    { path: 'top_k', text: '`-1`, which some clients send for unset.' },
    { path: 'top_p', text: '`-1`, which some clients send for unset.' },
  ],
  count_tokens: promptNoOps,
};

const shownWhole = '`auto`, `concise` or `detailed`: the summary of thoughts is the thoughts themselves.';

export const responsesNoOpFields: readonly NoOpField[] = [
  { path: 'user', text: noMarker },
  { path: 'safety_identifier', text: noMarker },
  { path: 'client_metadata', text: 'Any object. Nothing of it is passed to a node.' },
  { path: 'prompt_cache_retention', text: noCache },
  { path: 'prompt_cache_options', text: noCache },
  { path: 'service_tier', text: '`auto` or `default`: there is one class of service.' },
  { path: 'background', text: '`false`, the default.' },
  { path: 'truncation', text: '`disabled`, the default.' },
  { path: 'max_tool_calls', text: 'It counts calls of tools that a server runs, and there are none.' },
  { path: 'stream_options.include_obfuscation', text: 'No padding is added to a stream.' },
  { path: 'text.verbosity', text: '`medium`, the default.' },
  { path: 'reasoning.summary', text: shownWhole },
  { path: 'reasoning.generate_summary', text: shownWhole },
  { path: 'include[]', text: 'What belongs to tools that are not offered here.' },
  {
    path: 'tools[].external_web_access',
    text: '`false`: the tool `web_search` is not offered to the model.',
  },
  { path: 'tools[].output_schema', text: 'What a function gives is read as it comes.' },
  { path: 'tools[].defer_loading', text: '`false`, the default.' },
  { path: 'tools[].async', text: '`false`, the default.' },
  { path: 'tools[].allowed_callers', text: '`["direct"]`, the default.' },
  { path: 'input[].id', text: 'Calls and their outputs are joined by `call_id`.' },
  { path: 'input[].status', text: 'An item counts as it is.' },
  { path: 'input[].phase', text: '`commentary` or `final_answer`: models know no phases.' },
  { path: 'input[].content[].detail', text: 'The model decides how finely it looks.' },
  { path: 'input[].content[].logprobs', text: 'Of an earlier answer; its text counts.' },
];
