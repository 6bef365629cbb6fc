/** Parses an untrusted fleet file (YAML or JSON), with bounds on size, aliases and the number of faults. Never throws. */
import { type Document, isAlias, isMap, isScalar, isSeq, LineCounter, type Node, parseDocument } from 'yaml';
import type { z } from 'zod';
import { declaredFleetSchema, type Fleet, pathText } from '../../schemas/events/fleet.ts';

export const fleetFileBytesMax = 8 * 1024 * 1024;
/** Maximum number of faults reported per file. Users fix these first and then see more. */
const faultsMax = 200;
/** Maximum number of uses of one anchor, because nested uses multiply. */
const aliasesMax = 100;

export interface FleetFault {
  readonly file: string;
  /** Line number, counted from 1 as in editors. */
  readonly line: number;
  readonly column: number;
  readonly message: string;
}

export type ParsedFleet = { readonly fleet: Fleet } | { readonly faults: readonly FleetFault[] };

/** Parses the text. `file` is the name that faults mention. Faults are sorted by position. */
export function parseFleet(text: string, file: string): ParsedFleet {
  const lines = new LineCounter();
  const at = (offset: number, message: string): FleetFault => {
    const { line, col } = lines.linePos(offset);
    return { file, line: Math.max(line, 1), column: Math.max(col, 1), message };
  };
  if (Buffer.byteLength(text) > fleetFileBytesMax)
    return { faults: [{ file, line: 1, column: 1, message: `is larger than ${fleetFileBytesMax} bytes` }] };
  try {
    const document = parseDocument(text, {
      lineCounter: lines,
      prettyErrors: false,
      stringKeys: true,
      logLevel: 'error',
    });
    if (document.errors.length > 0) {
      return { faults: sortFaults(document.errors.map(({ pos, message }) => at(pos[0], message))) };
    }
    const parsed = declaredFleetSchema.safeParse(document.toJS({ maxAliasCount: aliasesMax }));
    if (parsed.success) return { fleet: parsed.data };
    const faults = parsed.error.issues.flatMap((issue) => toFaults(document, issue));
    return { faults: sortFaults(faults.map(({ offset, message }) => at(offset, message))) };
  } catch (error) {
    // The file has too many aliases, an alias without an anchor, or too many levels for the call stack.
    const why = error instanceof ReferenceError ? error.message : 'it is nested too deeply';
    return { faults: [{ file, line: 1, column: 1, message: `cannot be parsed: ${why}` }] };
  }
}

/** Formats a fault as one line, such as `FILE:LINE:COL message`. */
export function formatFault({ file, line, column, message }: FleetFault): string {
  return `${file}:${line}:${column} ${message}`;
}

function sortFaults(faults: FleetFault[]): FleetFault[] {
  return faults.sort((a, b) => a.line - b.line || a.column - b.column).slice(0, faultsMax);
}

function toFaults(document: Document, issue: z.core.$ZodIssue): { offset: number; message: string }[] {
  if (issue.code === 'unrecognized_keys') {
    return issue.keys.map((key) => {
      const path = [...issue.path, key];
      return { offset: locate(document, path).keyOffset, message: `${pathText(path)}: no such field` };
    });
  }
  const { found, offset } = locate(document, issue.path);
  const name = pathText(issue.path) || 'the file';
  return [{ offset, message: `${name}: ${found ? issue.message : 'is missing'}` }];
}

interface Location {
  /** Whether every part of the path exists. */
  readonly found: boolean;
  /** Offset at which the value starts or, if it does not exist, at which the innermost existing node around it starts. */
  readonly offset: number;
  /** Offset at which the value's key starts, or `offset` if the value has no key. */
  readonly keyOffset: number;
}

function locate(document: Document, path: readonly PropertyKey[]): Location {
  let node = document.contents as Node | null;
  let offset = node?.range?.[0] ?? 0;
  let keyOffset = offset;
  if (!node) return { found: false, offset, keyOffset };
  for (const part of path) {
    const child = findChild(document, node, part);
    if (!child) return { found: false, offset, keyOffset };
    node = child.value;
    keyOffset = child.key?.range?.[0] ?? node?.range?.[0] ?? offset;
    offset = node?.range?.[0] ?? keyOffset;
  }
  return { found: true, offset, keyOffset };
}

function findChild(
  document: Document,
  parent: Node | null,
  part: PropertyKey,
): { key: Node | null; value: Node | null } | undefined {
  const node = isAlias(parent) ? parent.resolve(document) : parent;
  if (isSeq(node)) {
    const value = node.items[Number(part)];
    return value === undefined ? undefined : { key: null, value: value as Node };
  }
  if (!isMap(node)) return undefined;
  const pair = node.items.find(({ key }) => String(isScalar(key) ? key.value : key) === String(part));
  return pair && { key: pair.key as Node, value: pair.value as Node | null };
}
