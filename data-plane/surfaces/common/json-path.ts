/** Formats paths in a caller's JSON. Names come from the caller, so only harmless ones are repeated in messages. */
import { endOfString, skipSpace } from '../../../shared/runtime/json-scan.ts';

export const harmlessName = /^[A-Za-z0-9_.-]{1,64}$/;

/** Path as text, such as `messages[2].content`, or an empty text for the whole body. */
export function pathText(path: readonly PropertyKey[]): string {
  let text = '';
  for (const part of path) {
    if (typeof part === 'number') text += `[${part}]`;
    else if (!harmlessName.test(String(part))) return `a field in ${text === '' ? 'the body' : text}`;
    else text += text === '' ? String(part) : `.${String(part)}`;
  }
  return text;
}

const brackets = { open: [0x7b, 0x5b], close: [0x7d, 0x5d] };

interface Level {
  readonly names: Set<string>;
  /** Name of the current member in an object, or index of the current element in an array. */
  key: string | number;
}

/** Path of the first name in valid JSON that is a duplicate within its object or is `__proto__`. */
export function findBadName(json: string): readonly PropertyKey[] {
  const open: Level[] = [];
  for (let at = 0; at < json.length; at += 1) {
    const code = json.charCodeAt(at);
    const inner = open[open.length - 1];
    if (brackets.open.includes(code)) open.push({ names: new Set(), key: 0 });
    else if (brackets.close.includes(code)) open.pop();
    else if (code === 0x2c && typeof inner?.key === 'number') inner.key += 1;
    else if (code === 0x22) {
      const end = endOfString(json, at);
      const isName = json.charCodeAt(skipSpace(json, end + 1)) === 0x3a;
      if (isName && isBad(json.slice(at, end + 1), inner)) return open.map(({ key }) => key);
      at = end;
    }
  }
  return [];
}

function isBad(quoted: string, object: Level | undefined): boolean {
  if (object === undefined) return false;
  const name = String(JSON.parse(quoted));
  object.key = name;
  if (name === '__proto__' || object.names.has(name)) return true;
  object.names.add(name);
  return false;
}
