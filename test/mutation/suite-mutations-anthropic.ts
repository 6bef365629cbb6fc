/** Mutations of the Anthropic-style surface. */
import { mutationsOf as of, type SuiteMutation } from './suite-runner.ts';

export const anthropicMutations: readonly SuiteMutation[] = [
  ...of(
    'data-plane/surfaces/messages/shape-messages.ts',
    ['data-plane/surfaces/messages/shape-messages.test.ts'],
    [
      [
        'unknown fields are refused',
        'if (!parsed.success) throw refusalOf(parsed.error);\n  const fields',
        'const fields',
      ],
      [
        'a budget is less than the limit',
        "thinking?.type === 'enabled' && thinking.budget_tokens >= fields.max_tokens",
        'false',
      ],
      ['thoughts are left out where that was asked', "? 'omitted'", "? 'shown'"],
      [
        'one call at a time is remembered',
        "if (callsOneAtATime(prompt)) needs.push('single_tool_call');",
        '',
      ],
      ['stop sequences are sent', '    stop,\n', '    stop: undefined,\n'],
      [
        'a version that is not known is refused',
        'if (known !== undefined) return known;',
        'return anthropicVersions[0];',
      ],
      ['counting has a version too', '  versionOf(headers);\n', ''],
      ['a schema is carried', 'schema === undefined\n', 'schema !== null\n'],
      [
        'thinking that is off is an effort of none',
        "return { effort: 'none', effortPath",
        'return { effort: undefined, effortPath',
      ],
      [
        'a budget is carried',
        "thinking?.type === 'enabled' ? thinking.budget_tokens : undefined",
        'undefined',
      ],
      [
        'a choice needs tools',
        "if (tools === undefined) throw shapeRefusal(['tool_choice'], 'needs tools');",
        'if (tools === undefined) return undefined;',
      ],
      [
        'any means required',
        "if (choice.type === 'any') return 'required';",
        "if (choice.type === 'any') return 'auto';",
      ],
      ['a named tool is one of the tools', 'if (!tools.some(', 'if (false && !tools.some('],
      ['a tool has its description', '...(description === undefined ? {} : { description }),', ''],
      ['a tool is strict where that was asked', '...(strict === undefined ? {} : { strict }),', ''],
      [
        'a stream starts with its usage',
        '...(sampling.stream === true ? { usageAtStart: true as const } : {}),',
        '',
      ],
    ],
  ),
  ...of(
    'data-plane/surfaces/messages/conversation.ts',
    ['data-plane/surfaces/messages/shape-messages.test.ts'],
    [
      ['a conversation is not empty', 'if (messages.length === 0) throw', 'if (messages === null) throw'],
      ['a call of a tool must be answered', 'last.tool_calls !== undefined)', 'last.tool_calls === null)'],
      ['adjacent turns of one role are one', 'last?.role === turn.role', 'last === null'],
      ['blocks of a system prompt are joined', "return texts.join('\\n\\n');", "return texts.join('');"],
      ['an empty system prompt is none', "content === '' ? []", 'content === null ? []'],
      ['results stand before what else was said', 'return [...results, { role', 'return [{ role'],
      [
        'images of results come after them',
        'const content = [...resultImages, ...parts];',
        'const content = [...parts];',
      ],
      [
        'a tool that failed says so',
        'block.is_error === true ? toolErrorPrefix + content : content',
        'content',
      ],
      ['thoughts that were not shown are nothing', "if (block.thinking !== '') thoughts", 'thoughts'],
      ['text after a call is refused', 'if (calls.length > 0) throw', 'if (calls.length < 0) throw'],
      [
        'thoughts reach the node',
        '...(thoughts.length === 0 ? {} : { reasoning_content: joinTexts(thoughts) }),',
        '',
      ],
      [
        'one text is sent as a text',
        "return first?.type === 'text' && others.length === 0 ? first.text : parts;",
        'return others.length < 0 ? String(first) : parts;',
      ],
      [
        'the path of an image within a result is found',
        "if (inner !== -1) return [...path, 'content', inner];",
        '',
      ],
      [
        'a last turn of the assistant is continued',
        "last?.role === 'assistant' ? lastPath : undefined",
        'undefined',
      ],
    ],
  ),
];
