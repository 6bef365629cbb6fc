/**
 * Parses the tool calls that the user's text asks a simulated node to make: `call NAME`, or `call NAME with {…}`. Each line
 * that contains calls is one turn of the node. The next line's turn follows after the results of those calls. Only the end of
 * a long text is searched, because agents put the user's text after a long text of their own.
 */
import type { Tool } from './chat-request.ts';
import { isRecord } from './loose.ts';

export interface RequestedCall {
  readonly tool: Tool;
  /** Input of the call. If undefined, the node uses the smallest input that the tool allows. */
  readonly input: unknown;
}

/** Number of characters at the end of a text that are searched for calls. */
const readMax = 4096;

/** Returns the turns that contain calls, in order. Ignores names of tools that the request does not offer. */
export function parseRequestedCalls(text: string, tools: readonly Tool[]): readonly RequestedCall[][] {
  const lines = text.slice(-readMax).split('\n');
  return lines.map((line) => parseCalls(line, tools)).filter((calls) => calls.length > 0);
}

function parseCalls(line: string, tools: readonly Tool[]): RequestedCall[] {
  const calls: RequestedCall[] = [];
  for (const match of line.matchAll(/\bcall[^A-Za-z0-9_-]+([A-Za-z0-9_-]+)( with (?=\{))?/gi)) {
    const tool = tools.find(({ name }) => name === match[1]);
    if (tool === undefined) continue;
    const at = match.index + match[0].length;
    calls.push({ tool, input: match[2] === undefined ? undefined : objectAtStart(line.slice(at)) });
  }
  return calls;
}

/** Parses the JSON object at the start of a text. Other text may follow the object. */
function objectAtStart(text: string): unknown {
  for (let end = text.indexOf('}'); end !== -1; end = text.indexOf('}', end + 1)) {
    try {
      const value: unknown = JSON.parse(text.slice(0, end + 1));
      if (isRecord(value)) return value;
    } catch {
      // This brace does not end the object, so the next one is tried.
    }
  }
  return undefined;
}
