/** Mutates raw bytes, or JSON values, which stay valid JSON. */
import { type Draw, edgeTexts, type Json } from './draw.ts';

const edgeBytes: readonly string[] = [
  ...['\r\n', '\n', '\r', '\0', ' ', '\t', ':', ',', '{', '}', '[', ']', '"', '\\', '\x7f', '\xff'],
  ...['\xc0\x80', '\xed\xa0\x80', '\xef\xbb\xbf', '0', '-', '999999999999999999999'],
];

/** Replaces between one and `timesMax` ranges of the bytes. A range may be empty. */
export function mutateBytes(draw: Draw, bytes: Buffer, timesMax = 4): Buffer {
  let mutated = bytes;
  for (let time = draw.between(1, timesMax); time > 0; time--) {
    const [at, from] = [draw.below(mutated.length + 1), draw.below(mutated.length + 1)];
    const inserted = draw.weighted<() => Buffer>([
      [1, () => Buffer.alloc(0)],
      [2, () => Buffer.from(draw.pick(edgeBytes), 'latin1')],
      [2, () => draw.bytes(draw.skewed(16))],
      [1, () => mutated.subarray(from, from + draw.skewed(200))],
    ])();
    const removed = draw.chance(0.1) ? mutated.length : draw.pick([0, 1, draw.skewed(64)]);
    mutated = Buffer.concat([mutated.subarray(0, at), inserted, mutated.subarray(at + removed)]);
  }
  return mutated;
}

/** Changes the value in one place: replaces, removes, repeats, renames or nests something. */
export function mutateJson(draw: Draw, value: Json, inProbability = 0.75): Json {
  const entries = typeof value === 'object' && value !== null ? Object.entries<Json>(value) : [];
  if (entries.length === 0 || !draw.chance(inProbability)) return replace(draw, value);
  const at = draw.below(entries.length);
  const [name, member] = entries[at] as [string, Json];
  const names = [...entries.map(([one]) => one), ...edgeTexts, draw.word(), name.toUpperCase()];
  const changed = draw.weighted<() => [string, Json][]>([
    [4, () => [[name, mutateJson(draw, member)]]],
    [1, () => []],
    [1, () => [[draw.pick(names), member]]],
    [1, () => [...draw.list(draw.skewed(copiesMax(member)), () => [name, member] as [string, Json])]],
    [
      1,
      () => [
        [name, member],
        [draw.pick(names), draw.json()],
      ],
    ],
  ])();
  entries.splice(at, 1, ...changed);
  return Array.isArray(value) ? entries.map(([, one]) => one) : Object.fromEntries(entries);
}

/** Limits the number of copies of a large value, because building huge values would delay the other cases. */
function copiesMax(member: Json): number {
  return Math.max(1, Math.min(5000, Math.floor(1_000_000 / JSON.stringify(member).length)));
}

function replace(draw: Draw, value: Json): Json {
  const isList = draw.chance(0.5);
  return draw.weighted<() => Json>([
    [2, () => draw.json()],
    [1, () => draw.pick([null, [], {}, '', 0, false])],
    [1, () => [value]],
    [1, () => (typeof value === 'string' ? value + draw.pick(edgeTexts) : JSON.stringify(value))],
    [
      1,
      () =>
        draw.list(draw.skewed(600), () => 0).reduce<Json>((deep) => (isList ? [deep] : { a: deep }), value),
    ],
  ])();
}

/** Returns the JSON text of a value, sometimes with a duplicate name, an odd number, an odd escape or a bad end. */
export function jsonText(draw: Draw, value: Json): string {
  let text = JSON.stringify(value);
  if (draw.chance(0.1)) text = text.replace(/"(\w+)":/, (found) => `${found}null,${found}`);
  if (draw.chance(0.05))
    text = text.replace(/"([a-z])/, (_, letter: string) => `"\\u00${letter.charCodeAt(0).toString(16)}`);
  if (draw.chance(0.05))
    text = text.replace(
      /:(true|\d+)/,
      `:${draw.pick(['1e999', '-0', '0.1e-400', '01', 'NaN', '1e5', '9'.repeat(400)])}`,
    );
  if (draw.chance(0.03)) text = `${draw.pick(['\ufeff', ' \n', ',', '[', '\0'])}${text}`;
  if (draw.chance(0.03)) text += draw.pick([' ', '}', 'x', '\0', text]);
  return text;
}
