/** The calls of a logger in a source, with the expression of their text. */
interface LogCall {
  readonly path: string;
  /** The last argument, as it is written. */
  readonly text: string;
}

const call = /(?:\b[lL]ogger|\blog|\baccessLog)\??\.(?:debug|info|warn|error|fatal|write)\(/g;

export function logCalls(path: string, source: string): LogCall[] {
  return [...source.matchAll(call)].map(({ 0: head, index }) => {
    const inside = parenthesised(source, index + head.length)
      .trim()
      .replace(/,$/, '');
    return { path, text: /(?:^|[,{]\s*)('[^']*'|[\w.[\]]+)$/.exec(inside)?.[1] ?? inside };
  });
}

export function fixedTexts(calls: readonly LogCall[]): string[] {
  return calls.filter(({ text }) => text.startsWith("'")).map(({ text }) => text.slice(1, -1));
}

export function variableTexts(calls: readonly LogCall[]): string[] {
  return calls.filter(({ text }) => !text.startsWith("'")).map(({ path, text }) => `${path}: ${text}`);
}

/** From behind an opening parenthesis to its end. */
function parenthesised(source: string, from: number): string {
  let depth = 1;
  for (let at = from; at < source.length; at++) {
    if (source[at] === '(') depth++;
    else if (source[at] === ')') depth--;
    if (depth === 0) return source.slice(from, at);
  }
  return source.slice(from);
}
