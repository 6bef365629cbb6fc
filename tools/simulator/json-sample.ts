/**
 * Creates the smallest JSON value that a JSON Schema allows, for tool arguments and structured answers. It supports the
 * keywords that clients use, except `pattern`. Depth and size are limited; a value beyond the limits is null.
 */
import { isRecord, type Loose } from './loose.ts';

const depthMax = 32;
const nodesMax = 2000;
const lengthMax = 10_000;

interface Walk {
  readonly root: unknown;
  nodes: number;
}

const formats = new Map<string, string>([
  ['date-time', '2026-01-01T00:00:00Z'],
  ['date', '2026-01-01'],
  ['time', '00:00:00Z'],
  ['email', 'someone@example.com'],
  ['uri', 'https://example.com/'],
  ['uuid', '00000000-0000-4000-8000-000000000000'],
  ['ipv4', '192.0.2.1'],
  ['ipv6', '2001:db8::1'],
  ['hostname', 'example.com'],
]);

/** Creates the smallest value that a schema allows. Returns an empty object if there is no schema. */
export function sampleValue(schema: unknown): unknown {
  if (schema === undefined || schema === null) return {};
  return sample(schema, { root: schema, nodes: 0 }, 0);
}

function sample(schema: unknown, walk: Walk, depth: number): unknown {
  walk.nodes += 1;
  if (!isRecord(schema) || depth > depthMax || walk.nodes > nodesMax) return null;
  if ('const' in schema) return schema['const'];
  if (Array.isArray(schema['enum'])) return schema['enum'][0];
  if (typeof schema['$ref'] === 'string') return sample(resolve(schema['$ref'], walk.root), walk, depth + 1);
  for (const keyword of ['anyOf', 'oneOf']) {
    const options = schema[keyword];
    if (Array.isArray(options)) return sample(options[0], walk, depth + 1);
  }
  return ofType(merged(schema), walk, depth);
}

/** Merges the parts of `allOf` into the schema itself. */
function merged(schema: Loose): Loose {
  if (!Array.isArray(schema['allOf'])) return schema;
  const parts = [schema, ...schema['allOf'].filter(isRecord)];
  const required = parts.flatMap((part) => (Array.isArray(part['required']) ? part['required'] : []));
  const properties = Object.assign({}, ...parts.map((part) => part['properties'] ?? {}));
  return { ...Object.assign({}, ...parts), required, properties };
}

function ofType(schema: Loose, walk: Walk, depth: number): unknown {
  const type = Array.isArray(schema['type']) ? schema['type'][0] : schema['type'];
  switch (type ?? impliedType(schema)) {
    case 'object':
      return sampleObject(schema, walk, depth);
    case 'array': {
      const items = Array.from({ length: size(schema['minItems']) });
      return items.map(() => sample(schema['items'] ?? {}, walk, depth + 1));
    }
    case 'string':
      return sampleString(schema);
    case 'integer':
      return sampleStep(schema, positive(schema['multipleOf']) ?? 1);
    case 'number':
      return sampleNumber(schema);
    case 'boolean':
      return false;
    default:
      return null;
  }
}

function impliedType(schema: Loose): string | undefined {
  if ('properties' in schema || 'required' in schema) return 'object';
  return 'items' in schema ? 'array' : undefined;
}

function sampleObject(schema: Loose, walk: Walk, depth: number): Record<string, unknown> {
  const properties = isRecord(schema['properties']) ? schema['properties'] : {};
  const required = Array.isArray(schema['required']) ? schema['required'] : [];
  const names = required.filter((name) => typeof name === 'string').slice(0, nodesMax);
  return Object.fromEntries(
    names.map((name) => [
      name,
      sample(Object.hasOwn(properties, name) ? properties[name] : {}, walk, depth + 1),
    ]),
  );
}

function sampleString(schema: Loose): string {
  const known = typeof schema['format'] === 'string' ? formats.get(schema['format']) : undefined;
  if (known !== undefined) return known;
  const longest = schema['maxLength'] === undefined ? lengthMax : size(schema['maxLength']);
  return 'text'.slice(0, longest).padEnd(size(schema['minLength']), 'x');
}

function sampleNumber(schema: Loose): number {
  const step = positive(schema['multipleOf']);
  if (step !== undefined) return sampleStep(schema, step);
  const above = finite(schema['exclusiveMinimum']);
  const below = finite(schema['exclusiveMaximum']);
  const least = finite(schema['minimum']) ?? above ?? Number.NEGATIVE_INFINITY;
  const most = finite(schema['maximum']) ?? below ?? Number.POSITIVE_INFINITY;
  const allowed = (value: number) =>
    value >= least && value <= most && value !== above && value !== below && Number.isFinite(value);
  return [0, least, most, (least + most) / 2, least + 1, most - 1].find(allowed) ?? 0;
}

function sampleStep(schema: Loose, step: number): number {
  const above = finite(schema['exclusiveMinimum']);
  const least = above === undefined ? finite(schema['minimum']) : (Math.floor(above / step) + 1) * step;
  const below = finite(schema['exclusiveMaximum']);
  const most = below === undefined ? finite(schema['maximum']) : (Math.ceil(below / step) - 1) * step;
  if (least !== undefined && least > 0) return Math.ceil(least / step) * step;
  return most !== undefined && most < 0 ? Math.floor(most / step) * step : 0;
}

function finite(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isFinite(value) ? value : undefined;
}

function positive(value: unknown): number | undefined {
  const number = finite(value);
  return number !== undefined && number > 0 ? number : undefined;
}

function size(value: unknown): number {
  return Math.min(Math.max(Math.floor(finite(value) ?? 0), 0), lengthMax);
}

/** Follows a reference within the schema, such as `#/$defs/unit`. */
function resolve(reference: string, root: unknown): unknown {
  let at = root;
  for (const step of reference.replace(/^#\/?/, '').split('/')) {
    if (step === '') continue;
    const name = step.replaceAll('~1', '/').replaceAll('~0', '~');
    at = isRecord(at) && Object.hasOwn(at, name) ? at[name] : undefined;
  }
  return at;
}
