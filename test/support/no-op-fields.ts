/**
 * Request fields that Headgate accepts although they have no effect. test/docs.test.ts writes this list into docs/api.md, and
 * the schema tests try each field.
 */

interface NoOpField {
  readonly path: string;
  /** Accepted values and the reason why the field has no effect, in Markdown. */
  readonly text: string;
}

const noMarker = 'Any text. Nodes do not receive it.';
const noCache = 'A cache hint. Nodes cache by content and need no hints.';

export const noOpFields: Readonly<Record<'chat' | 'embeddings', readonly NoOpField[]>> = {
  chat: [
    { path: 'user', text: noMarker },
    { path: 'safety_identifier', text: noMarker },
    { path: 'prompt_cache_retention', text: noCache },
    { path: 'prompt_cache_options', text: noCache },
    { path: 'service_tier', text: '`auto` or `default`. All requests are served alike.' },
    { path: 'store', text: 'Only `false`. Nothing is ever stored.' },
    { path: 'verbosity', text: 'Only `medium`, the default.' },
    { path: 'modalities', text: 'Only `["text"]`, the default.' },
    { path: 'stream_options.include_obfuscation', text: 'Streams are never padded.' },
    { path: 'messages[].content[].prompt_cache_breakpoint', text: noCache },
    {
      path: 'messages[].content[].image_url.detail',
      text: 'The model chooses the resolution at which it reads the image.',
    },
    { path: 'messages[].tool_calls[].index', text: 'The order of the list is used instead.' },
  ],
  embeddings: [{ path: 'user', text: noMarker }],
};

const noCacheReported = 'A cache hint. Nodes cache by content, and `usage` reports the cached tokens.';

const promptNoOps: readonly NoOpField[] = [
  { path: 'cache_control', text: noCacheReported },
  { path: 'system[].cache_control', text: noCacheReported },
  { path: 'messages[].content[].cache_control', text: noCacheReported },
  { path: 'messages[].content[].content[].cache_control', text: noCacheReported },
  { path: 'tools[].cache_control', text: noCacheReported },
  { path: 'messages[].content[].signature', text: 'Any text. Signatures are not checked.' },
  { path: 'messages[].content[].caller', text: 'Only `{"type":"direct"}`: the model itself made the call.' },
  { path: 'tools[].eager_input_streaming', text: 'Tool input is always streamed as it arrives.' },
  { path: 'tools[].defer_loading', text: 'Only `false`, the default.' },
  { path: 'tools[].allowed_callers', text: 'Only `["direct"]`, the default.' },
  {
    path: 'context_management',
    text: 'No edits, or `clear_thinking` edits that keep everything (`keep: "all"`).',
  },
  {
    path: 'output_config.effort',
    text: 'Only with `thinking: {"type":"disabled"}`, where there is no effort to set.',
  },
  { path: 'speed', text: 'Only `standard`. There is no other speed.' },
];

export const anthropicNoOpFields: Readonly<Record<'messages' | 'count_tokens', readonly NoOpField[]>> = {
  messages: [
    ...promptNoOps,
    { path: 'metadata.user_id', text: 'Any text. Nodes do not receive it.' },
    { path: 'service_tier', text: '`auto` or `standard_only`. All requests are served alike.' },
    { path: 'top_k', text: '`-1`, which some clients send for an unset field. Other values have an effect.' },
    { path: 'top_p', text: '`-1`, which some clients send for an unset field. Other values have an effect.' },
  ],
  count_tokens: promptNoOps,
};

const shownWhole = '`auto`, `concise` or `detailed`. The summary always contains the complete thoughts.';

export const responsesNoOpFields: readonly NoOpField[] = [
  { path: 'user', text: noMarker },
  { path: 'safety_identifier', text: noMarker },
  { path: 'client_metadata', text: 'Any object. Nodes do not receive it.' },
  { path: 'prompt_cache_retention', text: noCache },
  { path: 'prompt_cache_options', text: noCache },
  { path: 'service_tier', text: '`auto` or `default`. All requests are served alike.' },
  { path: 'background', text: 'Only `false`, the default.' },
  { path: 'truncation', text: 'Only `disabled`, the default.' },
  { path: 'max_tool_calls', text: 'It limits calls of tools that a server runs, and Headgate has none.' },
  { path: 'stream_options.include_obfuscation', text: 'Streams are never padded.' },
  { path: 'text.verbosity', text: 'Only `medium`, the default.' },
  { path: 'reasoning.summary', text: shownWhole },
  { path: 'reasoning.generate_summary', text: shownWhole },
  { path: 'include[]', text: 'Values that belong to tools that Headgate does not offer.' },
  {
    path: 'tools[].external_web_access',
    text: 'Only `false`, for `web_search`, which is then not offered to the model.',
  },
  { path: 'tools[].output_schema', text: 'The output of a function is not checked against a schema.' },
  { path: 'tools[].defer_loading', text: 'Only `false`, the default.' },
  { path: 'tools[].async', text: 'Only `false`, the default.' },
  { path: 'tools[].allowed_callers', text: 'Only `["direct"]`, the default.' },
  { path: 'input[].id', text: 'Calls and outputs are matched by `call_id` instead.' },
  { path: 'input[].status', text: 'Items are used as they are, whatever their status.' },
  { path: 'input[].phase', text: '`commentary` or `final_answer`. Models do not receive it.' },
  { path: 'input[].content[].detail', text: 'The model chooses the resolution at which it reads the image.' },
  { path: 'input[].content[].logprobs', text: 'Only the text of an earlier answer is used.' },
];
