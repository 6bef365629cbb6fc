/** Validates a request body. Refusals name a JSON path and the broken rule, but never a value or an unsafe name. */

import type { z } from 'zod';
import type { CauseWithType } from '../../../shared/decision/causes.ts';
import { Refusal } from '../../../shared/decision/refusal.ts';
import { harmlessName, pathText } from './json-path.ts';

type Path = readonly PropertyKey[];

/** Builds the refusal of the field at `path`. Its message has the form `messages[2].content: is required`. */
export function shapeRefusal(
  path: Path,
  rule: string,
  cause: CauseWithType<'UnsupportedShapeError'> = 'shape',
): Refusal {
  const name = pathText(path);
  return new Refusal(cause, name === '' ? `the body ${rule}` : `${name}: ${rule}`);
}

/** Returns the fields of a body, parsed by the schema. Throws a refusal for the first fault that the schema finds. */
export function parseFields<Schema extends z.ZodType>(schema: Schema, given: unknown): z.output<Schema> {
  const parsed = schema.safeParse(given, { reportInput: true });
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  if (issue === undefined) throw shapeRefusal([], 'is not supported');
  const { path, rule } = describe(issue, []);
  throw shapeRefusal(path, rule);
}

interface FieldFault {
  readonly path: Path;
  readonly rule: string;
}

function describe(issue: z.core.$ZodIssue, outer: Path): FieldFault {
  const path = [...outer, ...issue.path];
  if (issue.code === 'unrecognized_keys') {
    const key = issue.keys[0] ?? '';
    if (!harmlessName.test(key)) return { path, rule: 'has an unknown field, which is not supported' };
    return { path: [...path, key], rule: 'is not a supported field' };
  }
  if (issue.code === 'invalid_union') return closestBranch(issue, path);
  if (issue.code === 'invalid_key') return { path, rule: issue.issues[0]?.message ?? 'is not supported' };
  if (issue.code !== 'custom' && isAbsent(issue.input, path)) return { path, rule: 'is required' };
  return { path, rule: describeRule(issue) };
}

/** Whether the input counts as absent. A member that is null counts as absent, but an element of a list does not. */
function isAbsent(input: unknown, path: Path): boolean {
  return input === undefined || (input === null && typeof path.at(-1) === 'string');
}

const typeRule = 'must be of type ';

/** Describes the fault in the branch of the union that matched furthest, because the caller probably meant that branch. */
function closestBranch(issue: z.core.$ZodIssueInvalidUnion, path: Path): FieldFault {
  const faults = issue.errors.flatMap(([first]) => (first === undefined ? [] : [describe(first, path)]));
  const most = Math.max(...faults.map(reach));
  const best = faults.filter((fault) => fault.path.length > path.length && reach(fault) === most);
  // Prefer the fault of a branch that accepts the value's type, because that fault says more than a wrong type.
  const one = best.find(({ rule }) => !rule.startsWith(typeRule)) ?? best[0];
  if (one?.rule.startsWith(typeRule)) {
    const types = new Set(best.map(({ rule }) => rule.slice(typeRule.length)));
    return { path: one.path, rule: `${typeRule}${[...types].join(' or ')}` };
  }
  if (one !== undefined) return one;
  const { input } = issue;
  // For a discriminated union, Zod reports the whole object as input, although the path ends at the discriminator.
  const named = path.at(-1);
  const isUnnamed =
    issue.errors.length === 0 &&
    typeof input === 'object' &&
    input !== null &&
    !Object.hasOwn(input, named ?? '');
  return {
    path,
    rule: isUnnamed || isAbsent(input, path) ? 'is required' : 'has a form that is not supported',
  };
}

/** Measures how far into the value a fault is: by its depth, and then by its index in a list. */
function reach({ path }: FieldFault): number {
  const last = path.at(-1);
  return path.length + (typeof last === 'number' ? 1 - 1 / (last + 2) : 0);
}

/** Name of the expected type, as JSON Schema calls it. */
function typeName(issue: z.core.$ZodIssueInvalidType): string {
  return issue.expected === 'int' ? 'integer' : issue.expected;
}

function describeRule(issue: z.core.$ZodIssue): string {
  switch (issue.code) {
    case 'invalid_type':
      // Replace Zod's own messages, which begin with "Invalid input". Messages from this project's schemas stay as they are.
      return issue.message.startsWith('Invalid input') ? `${typeRule}${typeName(issue)}` : issue.message;
    case 'invalid_value':
      if (!issue.message.startsWith('Invalid')) return issue.message;
      return `must be one of ${issue.values.map((value) => JSON.stringify(value)).join(', ')}`;
    case 'too_small':
      return issue.origin === 'array' || issue.origin === 'string'
        ? 'must not be empty'
        : `must be at least ${issue.minimum}`;
    case 'too_big':
      if (issue.origin === 'array') return `must have at most ${issue.maximum} entries`;
      return issue.origin === 'string'
        ? `must have at most ${issue.maximum} characters`
        : `must be at most ${issue.maximum}`;
    default:
      return issue.message;
  }
}
