/**
 * Says in words what a schema found wrong with a body: the JSON path and the rule, never a value.
 * Names that the caller made up are untrusted text: only harmless ones are repeated.
 */
import type { z } from 'zod';
import { Refusal } from '../../shared/decision/refusal.ts';

const harmlessName = /^[A-Za-z0-9_.-]{1,64}$/;

type Path = readonly PropertyKey[];

/** A refusal of the field at `path`, as in `messages[2].content: is required`. */
export function shapeRefusal(path: Path, rule: string): Refusal {
  const name = pathText(path);
  return new Refusal('UnsupportedShapeError', name === '' ? `the body ${rule}` : `${name}: ${rule}`);
}

/** The refusal of the first fault that a schema found. */
export function refusalOf(error: z.ZodError): Refusal {
  const [issue] = error.issues;
  if (issue === undefined) return shapeRefusal([], 'is not supported');
  const fault = describe(issue as z.core.$ZodIssue, []);
  return shapeRefusal(fault.path, fault.rule);
}

interface Fault {
  readonly path: Path;
  readonly rule: string;
}

function describe(issue: z.core.$ZodIssue, outer: Path): Fault {
  const path = [...outer, ...issue.path];
  if (issue.code === 'unrecognized_keys') {
    const key = issue.keys[0] ?? '';
    if (!harmlessName.test(key)) return { path, rule: 'has an unknown field, which is not supported' };
    return { path: [...path, key], rule: 'is not a supported field' };
  }
  if (issue.code === 'invalid_union') return closestBranch(issue, path);
  if (issue.code === 'invalid_key') return { path, rule: issue.issues[0]?.message ?? 'is not supported' };
  if (issue.input === undefined && issue.code !== 'custom') return { path, rule: 'is required' };
  return { path, rule: ruleOf(issue) };
}

/** Of the branches of a union, the one that got furthest: its fault is the one that the caller meant. */
function closestBranch(issue: z.core.$ZodIssueInvalidUnion, path: Path): Fault {
  let best: Fault | undefined;
  for (const [first] of issue.errors) {
    if (first === undefined) continue;
    const fault = describe(first, path);
    if (best === undefined || fault.path.length > best.path.length) best = fault;
  }
  if (best !== undefined && best.path.length > path.length) return best;
  return { path, rule: issue.input === undefined ? 'is required' : 'has a form that is not supported' };
}

function ruleOf(issue: z.core.$ZodIssue): string {
  switch (issue.code) {
    case 'invalid_type':
      // A text of the schema's own stands instead of the standard one, which begins so.
      return issue.message.startsWith('Invalid input') ? `must be of type ${issue.expected}` : issue.message;
    case 'invalid_value':
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

function pathText(path: Path): string {
  let text = '';
  for (const part of path) {
    if (typeof part === 'number') text += `[${part}]`;
    else if (!harmlessName.test(String(part))) return `a field in ${text === '' ? 'the body' : text}`;
    else text += text === '' ? String(part) : `.${String(part)}`;
  }
  return text;
}
