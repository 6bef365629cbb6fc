/**
 * A placement report is a record on the topic `headgate.gauges`, next to the gauges. It contains the number of requests that
 * one gateway process has in flight at each node. It also contains the process's placements of prompts that other gateways
 * would place on another node, so that all gateways learn to place them alike. Reports are JSON, which readers of gauges
 * ignore. A late, lost, duplicate or forged report can at worst send a prompt to a node that has not cached it.
 */
import { limitRecordBytesMax } from './limits.ts';

/** Placement of a prompt: the tenant whose share of the table it uses, the 53-bit key of its longest prefix, and its node. */
export type PromptPlacement = readonly [sharer: string, key: number, node: string];

export interface PlacementReport {
  /** Id of the process that writes the report. */
  readonly process: string;
  /** Number of requests that the process has in flight at each node. Idle nodes are left out. */
  readonly loads: readonly (readonly [node: string, inFlight: number])[];
  readonly placements: readonly PromptPlacement[];
}

export const placementsMax = 1000;
/** Maximum number of nodes in one record. With the longest names, this many fill two thirds of the record. */
const loadsMax = 1000;
const inFlightMax = 1_000_000;
const textMax = 64;
const keyRadix = 36;
const brace = 0x7b;

/** Maps each sharer, and below it each node, to the keys of placed prompts, which are separated by spaces. */
type KeysByNode = Record<string, Record<string, string>>;

export function encodePlacements({ process, loads, placements }: PlacementReport): Buffer {
  // The object has no prototype, because an organisation may have the name of a property that it would inherit.
  const by: KeysByNode = Object.create(null);
  for (const [sharer, key, node] of placements.slice(0, placementsMax)) {
    by[sharer] ??= Object.create(null) as Record<string, string>;
    const keys = by[sharer];
    const text = key.toString(keyRadix);
    keys[node] = keys[node] === undefined ? text : `${keys[node]} ${text}`;
  }
  const value = Buffer.from(JSON.stringify({ process, loads: loads.slice(0, loadsMax).flat(), placed: by }));
  return value.length <= limitRecordBytesMax
    ? value
    : encodePlacements({ process, loads, placements: placements.slice(0, placements.length / 2) });
}

/** Decodes a placement report. Returns undefined if the record is of another kind or if any part of it is invalid. */
export function decodePlacements(value: Uint8Array): PlacementReport | undefined {
  if (value[0] !== brace) return undefined;
  const { process, loads, placed } = tryParseReport(value);
  const busy = readLoads(loads);
  const placements = readPlacements(placed);
  if (!isText(process) || busy === undefined || placements === undefined) return undefined;
  return { process, loads: busy, placements };
}

function readPlacements(placed: unknown): PromptPlacement[] | undefined {
  const all: PromptPlacement[] = [];
  for (const [sharer, nodes] of Object.entries(asObject(placed)))
    for (const [node, keys] of Object.entries(asObject(nodes))) {
      if (!isText(sharer) || !isText(node) || typeof keys !== 'string') return undefined;
      for (const text of keys.split(' ', placementsMax - all.length)) {
        const key = Number.parseInt(text, keyRadix);
        if (!isCount(key, Number.MAX_SAFE_INTEGER)) return undefined;
        all.push([sharer, key, node]);
      }
    }
  return all;
}

/** Reads a list in which nodes and loads alternate. An object with a thousand keys would take five times as long to read. */
function readLoads(value: unknown): [string, number][] | undefined {
  const list: unknown[] = Array.isArray(value) ? value : [];
  const loads: [string, number][] = [];
  for (let at = 0; at < list.length && loads.length < loadsMax; at += 2) {
    const [node, inFlight] = [list[at], list[at + 1]];
    if (!isText(node) || !isCount(inFlight, inFlightMax)) return undefined;
    loads.push([node, inFlight]);
  }
  return loads;
}

function tryParseReport(value: Uint8Array): Record<string, unknown> {
  try {
    return asObject(JSON.parse(Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString()));
  } catch {
    return {};
  }
}

function asObject(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value.length > 0 && value.length <= textMax;
}

function isCount(value: unknown, most: number): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0 && (value as number) <= most;
}
