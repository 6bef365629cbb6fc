/** Compares two answers member by member, and says why each difference between our answer and llama.cpp's is intended. */
import type { Case } from './differences-cases.ts';

export interface Difference {
  /** Path of the member, such as `body.usage.input_tokens`. */
  readonly at: string;
  /** Value in our answer, or undefined if our answer does not have the member. */
  readonly ours: unknown;
  readonly theirs: unknown;
}

export interface Explanation {
  readonly why: string;
  covers(difference: Difference, one: Case): boolean;
}

/** Lists the differences. If the two outcomes differ, compares nothing else. */
export function differencesOf(ours: object, theirs: object): Difference[] {
  const [mine, other] = [leavesOf(ours), leavesOf(theirs)];
  const paths =
    mine.get('outcome') === other.get('outcome') ? new Set([...mine.keys(), ...other.keys()]) : ['outcome'];
  return [...paths]
    .filter((at) => mine.get(at) !== other.get(at))
    .map((at) => ({ at, ours: mine.get(at), theirs: other.get(at) }));
}

/** Returns all leaf values by path. An empty list or object counts as a leaf. */
function leavesOf(value: unknown, path = '', found = new Map<string, unknown>()): Map<string, unknown> {
  const isHolder = typeof value === 'object' && value !== null;
  const members = isHolder ? Object.entries(value) : [];
  for (const [name, member] of members) leavesOf(member, path === '' ? name : `${path}.${name}`, found);
  if (members.length === 0 && value !== undefined) found.set(path, isHolder ? JSON.stringify(value) : value);
  return found;
}

/** Whether only our answer has the member, with the value null or 0. */
const isExtra = ({ ours, theirs }: Difference): boolean =>
  theirs === undefined && (ours === null || ours === 0);

/** Covers cases whose name begins like this and whose prompt has exactly this many tokens more than llama.cpp's. */
function longerBy(tokens: number, name: string): Explanation['covers'] {
  return ({ at, ours, theirs }, one) =>
    at === 'body.usage.input_tokens' && one.name.startsWith(name) && Number(ours) - Number(theirs) === tokens;
}

export const explanations: readonly Explanation[] = [
  {
    why: 'ids reveal nothing about the engine, and begin as those of the API do',
    covers: ({ at, ours }) =>
      (at === 'body.id' && /^msg_[0-9a-f]{32}$/.test(String(ours))) ||
      (/^body\.content\.\d+\.id$/.test(at) && /^toolu_/.test(String(ours))),
  },
  {
    why: 'members that newer clients expect are there, and are null where they say nothing',
    covers: (difference) =>
      isExtra(difference) &&
      /(stop_details|container|diagnostics|cache_creation|cache_creation_input_tokens|output_tokens_details|server_tool_use|inference_geo|service_tier|speed)$/.test(
        difference.at,
      ),
  },
  {
    why: 'which stop sequence it was is reported only where the node reports it for a chat, which llama.cpp does not',
    covers: ({ at, ours, theirs }) => /stop_sequence$/.test(at) && ours === null && theirs === 'th',
  },
  {
    why: 'a call begins with an empty input, as clients expect',
    covers: ({ at, ours, theirs }) =>
      at === 'grammar' && ours === 'kept' && theirs === 'a call begins without its empty input',
  },
  {
    why: 'blocks of instructions stay apart by an empty line of two tokens; theirs run together',
    covers: longerBy(2, 'system blocks'),
  },
  {
    why: 'turns of one role are one turn, as the API says, so that the marks of one turn are not there',
    covers: longerBy(-5, 'two turns of one role'),
  },
  {
    why: 'a result says in seven tokens that its tool failed; theirs drops that',
    covers: longerBy(7, 'a result of a tool that failed'),
  },
  {
    why: 'of the tools only the one that was named is sent, because the engine takes any of them for it',
    covers: longerBy(-225, 'a tool named'),
  },
  {
    why: 'where no tool is allowed none is called, and the marks of a call are not passed on as text; theirs calls one',
    covers: ({ at }, { name }) =>
      name.startsWith('no tool allowed') &&
      /^(body\.content|body\.stop_reason|body\.usage\.output_tokens$|outline$|grammar$)/.test(at),
  },
  {
    why: 'a prompt that is too long is a refusal of its own',
    covers: ({ ours, theirs }) =>
      ours === '413 ContextWindowExceededError' && theirs === '400 exceed_context_size_error',
  },
  {
    why: 'an image for a model without eyes is the fault of the request, not of the server',
    covers: ({ ours, theirs }) => ours === '400 UnsupportedShapeError' && theirs === '500 server_error',
  },
  {
    why: 'a request that the shape cannot hold is refused, where theirs drops what it does not know',
    covers: ({ ours, theirs }) => ours === '400 UnsupportedShapeError' && theirs === 'answered',
  },
  {
    why: 'a model that the stack does not serve is refused; theirs answers to any name',
    covers: ({ ours, theirs }) => ours === '404 TargetNotServingError' && theirs === 'answered',
  },
];
