/**
 * Reads the golden files: logs, each with its expected results, and the promises that cover the decision lines. Built code
 * also reads the files in the source folder.
 */
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type EventTypeName, eventTypeNames } from '../../schemas/events/event-definitions.ts';
import type { LogRecord } from '../../shared/log/core/control-log.ts';
import { memorySnapshot } from '../../shared/snapshot/open-snapshot.ts';

export const goldenFolder = import.meta.dirname.replace('/dist/test/', '/test/');

export function goldenText(name: string): string {
  return readFileSync(join(goldenFolder, name), 'utf8');
}

export function linesOf(name: string): string[] {
  return goldenText(name).trimEnd().split('\n');
}

export function goldenLogs(): string[] {
  return readdirSync(goldenFolder)
    .filter((name) => name.endsWith('.jsonl'))
    .map((name) => name.slice(0, -'.jsonl'.length));
}

/** Reads a log with one record per line: its offset, its value in base64, and its signature if there is one. */
export function readLog(name: string): LogRecord[] {
  return linesOf(`${name}.jsonl`).map((line) => {
    const { offset, value, signature } = JSON.parse(line);
    return {
      offset,
      value: Buffer.from(value, 'base64'),
      signature: signature === undefined ? null : Buffer.from(signature, 'base64'),
    };
  });
}

export interface ExpectedOfLog {
  /**
   * Head of the log's chain. It depends only on the rule that decides which records are accepted, so no fold version may
   * change it.
   */
  readonly position: {
    readonly log: string | null;
    readonly seq: number;
    readonly hash: string;
    readonly skipped: number;
  };
  readonly digestsByFoldVersion: Readonly<Record<string, Readonly<Record<string, string>>>>;
}

export function expectedOf(name: string): ExpectedOfLog {
  return JSON.parse(goldenText(`${name}.expected.json`));
}

export function folded(records: readonly LogRecord[]) {
  const snapshot = memorySnapshot();
  const { consumed } = snapshot.apply(records);
  const { log, seq, hash } = snapshot.head;
  return { snapshot, consumed, position: { log, seq, hash, skipped: snapshot.skipped } };
}

/** Returns the event types whose first version does not occur in any golden log. */
export function typesWithoutLog(): EventTypeName[] {
  const seen = new Set<string>();
  for (const { value } of goldenLogs().flatMap(readLog)) {
    const text = value.toString('utf8');
    if (!text.startsWith('{"v":1,')) continue;
    for (const { type, v } of JSON.parse(text).events) seen.add(`${type} ${v}`);
  }
  return eventTypeNames.filter((type) => !seen.has(`${type} 1`));
}

/** A promise, made when lines were added: the number of commits and decisions at that time, and their digest. */
export interface Promised {
  readonly commits: number;
  readonly decisions: number;
  readonly sha256: string;
}

export interface DecisionLines {
  readonly commits: readonly string[];
  readonly decisions: readonly string[];
}

export function decisionLines(): DecisionLines {
  return { commits: linesOf('decisions/commits.jsonl'), decisions: linesOf('decisions/decisions.jsonl') };
}

export function readPromised(): readonly Promised[] {
  return JSON.parse(goldenText('decisions/promised.json'));
}

function digestOf(of: DecisionLines, { commits, decisions }: Omit<Promised, 'sha256'>): string {
  const text = [...of.commits.slice(0, commits), ...of.decisions.slice(0, decisions)].join('\n');
  return createHash('sha256').update(text).digest('hex');
}

/** Returns the number and the digest of all present lines, to be promised from now on. */
export function promiseOf(of: DecisionLines): Promised {
  const now = { commits: of.commits.length, decisions: of.decisions.length };
  return { ...now, sha256: digestOf(of, now) };
}

/** Returns the indexes of the promises that no longer match the lines. */
export function brokenPromises(of: DecisionLines): number[] {
  return readPromised().flatMap((entry, index) => (digestOf(of, entry) === entry.sha256 ? [] : [index]));
}
