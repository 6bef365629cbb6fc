/** Mutations: of bytes, whatever they mean, and of JSON values, which stay JSON. */
import { type Draw, edgeTexts } from './draw.ts';

const edgeBytes: readonly string[] = [
  ...['\r\n', '\n', '\r', '\0', ' ', '\t', ':', ',', '{', '}', '[', ']', '"', '\\', '\x7f', '\xff'],
  ...['\xc0\x80', '\xed\xa0\x80', '\xef\xbb\xbf', '0', '-', '999999999999999999999'],
];

/** One to `timesMax` changes of the bytes. */
export function mutateBytes(draw: Draw, bytes: Buffer, timesMax = 4): Buffer {
  let mutated = Buffer.from(bytes);
  const times = draw.between(1, timesMax);
  for (let time = 0; time < times; time++) mutated = mutateOnce(draw, mutated);
  return mutated;
}

function mutateOnce(draw: Draw, bytes: Buffer<ArrayBuffer>): Buffer<ArrayBuffer> {
  const at = draw.below(bytes.length + 1);
  const to = Math.min(bytes.length, at + draw.skewed(64));
  const before = bytes.subarray(0, at);
  const after = bytes.subarray(to);
  switch (draw.below(8)) {
    case 0: {
      const flipped = Buffer.from(bytes);
      if (at < flipped.length) flipped[at] = (flipped[at] ?? 0) ^ (1 << draw.below(8));
      return flipped;
    }
    case 1:
      return Buffer.concat([before, after]);
    case 2:
      return Buffer.concat([bytes.subarray(0, to), bytes.subarray(at)]);
    case 3:
      return Buffer.concat([before, Buffer.from(draw.pick(edgeBytes), 'latin1'), bytes.subarray(at)]);
    case 4:
      return Buffer.concat([before, draw.bytes(draw.skewed(16)), after]);
    case 5:
      return Buffer.from(before);
    case 6: {
      const from = draw.below(bytes.length + 1);
      return Buffer.concat([before, bytes.subarray(from, from + draw.skewed(200)), after]);
    }
    default:
      return Buffer.concat([before, Buffer.from(draw.pick(edgeBytes), 'latin1'), after]);
  }
}

export type Json = null | boolean | number | string | readonly Json[] | { readonly [name: string]: Json };

/** Any JSON, small. */
export function anyJson(draw: Draw, depth = 3): Json {
  const kind = draw.below(depth > 0 ? 8 : 5);
  if (kind === 0) return null;
  if (kind === 1) return draw.chance(0.5);
  if (kind === 2) return draw.number();
  if (kind <= 4) return draw.text();
  if (kind === 5) return draw.list(draw.below(4), () => anyJson(draw, depth - 1));
  return Object.fromEntries(
    draw.list(draw.below(4), () => [
      draw.pick([draw.word(), draw.pick(edgeTexts)]),
      anyJson(draw, depth - 1),
    ]),
  );
}

/** The value with one place in it changed: replaced, removed, repeated, renamed, nested or filled up. */
export function mutateJson(draw: Draw, value: Json, inProbability = 0.75): Json {
  const inside =
    typeof value === 'object' &&
    value !== null &&
    Object.keys(value).length > 0 &&
    draw.chance(inProbability);
  if (!inside) return replaced(draw, value);
  return Array.isArray(value)
    ? mutateList(draw, value as readonly Json[])
    : mutateObject(draw, value as { readonly [name: string]: Json });
}

function mutateList(draw: Draw, list: readonly Json[]): Json {
  const at = draw.below(list.length);
  const entry = list[at] as Json;
  switch (draw.below(6)) {
    case 0:
      return list.filter((_, index) => index !== at);
    case 1:
      return [...list, entry];
    case 2:
      return Array.from({ length: draw.skewed(copiesMax(entry)) }, () => entry);
    default:
      return list.map((one, index) => (index === at ? mutateJson(draw, one) : one));
  }
}

/** Copies of copies would grow without a bound, and making them would hold up the other cases. */
function copiesMax(entry: Json): number {
  return Math.max(1, Math.min(5000, Math.floor(1_000_000 / JSON.stringify(entry).length)));
}

function mutateObject(draw: Draw, object: { readonly [name: string]: Json }): Json {
  const names = Object.keys(object);
  const name = draw.pick(names);
  const { [name]: member = null, ...others } = object;
  switch (draw.below(7)) {
    case 0:
      return others;
    case 1:
      return { ...object, [draw.pick([...edgeTexts, draw.word(), name.toUpperCase()])]: anyJson(draw) };
    case 2:
      return { ...others, [draw.pick(names)]: member };
    default:
      return { ...object, [name]: mutateJson(draw, member) };
  }
}

function replaced(draw: Draw, value: Json): Json {
  switch (draw.below(6)) {
    case 0:
      return nested(draw, value);
    case 1:
      return typeof value === 'string' ? value + draw.pick(edgeTexts) : JSON.stringify(value);
    case 2:
      return draw.pick([null, [], {}, '', 0, false]);
    case 3:
      return [value];
    default:
      return anyJson(draw);
  }
}

function nested(draw: Draw, value: Json): Json {
  let deep = value;
  const isList = draw.chance(0.5);
  const levels = draw.skewed(600);
  for (let level = 0; level < levels; level++) deep = isList ? [deep] : { a: deep };
  return deep;
}

/** The JSON text of a value, at times with what only a text can have: names twice, odd numbers, odd escapes, bad ends. */
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
