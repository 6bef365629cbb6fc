/**
 * The accept rule decides which records of the control log count, and in which order. It is pure and must never change,
 * because two readers that disagree about it would reach different states. The rule turns a log's total order into
 * compare-and-append, so writers need no leader, lock or transaction. It reads only the envelope, the raw bytes, and the
 * events `log.created` and `log.signers_set`. The fold interprets all other events.
 */
import { hash } from 'node:crypto';
import { z } from 'zod';
import {
  type Commit,
  commitBytesMax,
  genesisPrev,
  parseCommit,
  type Via,
} from '../../../schemas/events/commit.ts';
import type { StoredEvent } from '../../../schemas/events/events.ts';
import { idSchema } from '../../../schemas/names.ts';
import type { LogRecord } from './control-log.ts';
import { signatureBytes, verify } from './signing.ts';

/** End of the chain of accepted records, as far as a reader has followed it. */
export interface Head {
  /** Id of the log that the records must belong to. null if the first record of any log would be accepted. */
  readonly log: string | null;
  /** Number of the last accepted record. 0 before the first. */
  readonly seq: number;
  /** SHA-256 of the last accepted record's raw bytes, in hex. */
  readonly hash: string;
  /** Ed25519 public keys of the log's signers, as SPKI DER in base64. Empty if the log is not signed. */
  readonly signers: readonly string[];
}

/** Returns the head before the first record. If `expectedLog` is given, only the first record of that log is accepted. */
export function emptyHead(expectedLog: string | null = null): Head {
  return { log: expectedLog, seq: 0, hash: genesisPrev, signers: [] };
}

/** SHA-256 of a record's raw bytes, in hex. The next commit contains it as its `prev`. */
export function recordHash(raw: Uint8Array): string {
  return hash('sha256', raw, 'hex');
}

/** Record to be judged, with the context that the rules need. */
export interface Candidate {
  readonly head: Head;
  readonly commit: Commit;
  readonly raw: Buffer;
  readonly signature: Buffer | null;
  /** Public keys of those who may sign this record. Empty if it need not be signed. */
  readonly signers: readonly string[];
  /** Whether this record determines who may sign later records. */
  readonly namesSigners: boolean;
}

export interface ChainRule {
  readonly name: 'log' | 'genesis' | 'seq' | 'prev' | 'signature';
  readonly holds: (candidate: Candidate) => boolean;
}

/** Clauses of the accept rule. A record counts only if all of them hold. The most expensive clause comes last. */
export const chainRules: readonly ChainRule[] = [
  { name: 'log', holds: ({ head, commit }) => head.log === null || commit.log === head.log },
  { name: 'seq', holds: ({ head, commit }) => commit.seq === head.seq + 1 },
  { name: 'prev', holds: ({ head, commit }) => commit.prev === head.hash },
  { name: 'genesis', holds: ({ head, commit }) => head.seq > 0 || parseGenesis(commit) !== undefined },
  {
    name: 'signature',
    holds: ({ signers, raw, signature }) => signers.length === 0 || verify(signers, raw, signature),
  },
];

export type SkipReason = 'unreadable' | ChainRule['name'];

export type Judgement =
  /** The record extends the chain, and `head` is the chain's new end. */
  | { readonly accepted: Commit; readonly head: Head }
  /** The record does not count. `skipped` names the first clause that it violates. */
  | { readonly skipped: SkipReason };

/** Applies the accept rule to one record. Never throws. Only tests pass other rules than the default. */
export function judge(head: Head, record: LogRecord, rules: readonly ChainRule[] = chainRules): Judgement {
  const { value: raw, signature } = record;
  const commit = parseCommit(raw);
  if (!commit) return { skipped: 'unreadable' };
  const named = findNamedSigners(head, commit);
  const signers = allowedSigners(head, named);
  const candidate = { head, commit, raw, signature, signers, namesSigners: named !== undefined };
  const broken = rules.find((rule) => !rule.holds(candidate));
  if (broken) return { skipped: broken.name };
  const { log, seq } = commit;
  return { accepted: commit, head: { log, seq, hash: recordHash(raw), signers: named ?? head.signers } };
}

/** Returns the signers that this commit sets for later records, or undefined if it does not set any. */
function findNamedSigners(head: Head, commit: Commit): readonly string[] | undefined {
  return head.seq === 0 ? parseGenesis(commit)?.signers : findSetSigners(commit);
}

/** Returns the keys that may sign a record. The record that sets the first signers must be signed by one of them. */
function allowedSigners(head: Head, named: readonly string[] | undefined): readonly string[] {
  return head.signers.length > 0 ? head.signers : (named ?? []);
}

/**
 * Judges many records, and returns one judgement per record. In a signed log, it verifies only the signatures of the last
 * accepted record, which covers the records before it, and of those that change the signers. If the last signature is
 * invalid, every record is judged separately. The result equals that of `judge` with one exception: a genuine record with a
 * damaged signature counts, because a later signature proves its bytes.
 */
export function judgeBatch(
  head: Head,
  records: readonly LogRecord[],
  rules: readonly ChainRule[] = chainRules,
): Judgement[] {
  const optimistic = judgeEach(
    head,
    records,
    rules.map((rule) => (rule.name === 'signature' ? assumeSigned(rule) : rule)),
  );
  const last = optimistic.findLastIndex((judgement) => 'accepted' in judgement);
  const judgement = optimistic[last];
  const record = records[last];
  if (!record || !judgement || !('accepted' in judgement)) return optimistic;
  // A record that sets signers needs no further check, because it was verified with the previous signers' keys.
  const { accepted, head: end } = judgement;
  if (accepted.seq === 1 || findSetSigners(accepted) !== undefined) return optimistic;
  const isSigned = end.signers.length === 0 || verify(end.signers, record.value, record.signature);
  return isSigned ? optimistic : judgeEach(head, records, rules);
}

function judgeEach(head: Head, records: readonly LogRecord[], rules: readonly ChainRule[]): Judgement[] {
  let at = head;
  return records.map((record) => {
    const judgement = judge(at, record, rules);
    if ('accepted' in judgement) at = judgement.head;
    return judgement;
  });
}

/** Returns a rule that accepts every signature, except on records that set signers, such as a log's first record. */
function assumeSigned(rule: ChainRule): ChainRule {
  return {
    name: rule.name,
    holds: (candidate) =>
      candidate.namesSigners
        ? rule.holds(candidate)
        : candidate.signers.length === 0 || candidate.signature?.length === signatureBytes,
  };
}

/** Formats of the two events that the rule reads, copied so that new event versions never change which records count. */
const signersSchema = z.array(z.string().max(200)).max(16);
const genesisSchema = z.object({ log: idSchema, signers: signersSchema.optional() });
const signersSetSchema = z.object({ signers: signersSchema.min(1) });

/** Returns the signers that a commit sets. undefined unless a critical `log.signers_set` is its only event. */
function findSetSigners(commit: Commit): readonly string[] | undefined {
  const event = commit.events[0];
  if (event?.type !== 'log.signers_set' || !event.critical || commit.events.length !== 1) return undefined;
  return signersSetSchema.safeParse(event.data).data?.signers;
}

/** Returns the data of `log.created`, or undefined if the commit is not a well-formed first commit. */
function parseGenesis(commit: Commit): { readonly signers: readonly string[] } | undefined {
  const event = commit.events[0];
  if (event?.type !== 'log.created' || commit.events.length !== 1) return undefined;
  const parsed = genesisSchema.safeParse(event.data);
  if (!parsed.success || parsed.data.log !== commit.log) return undefined;
  return { signers: parsed.data.signers ?? [] };
}

/** A commit that is not yet in the log. It contains the events of one command. */
export interface CommitDraft {
  /** End of the chain that the commit extends. Its `log` must not be null. */
  readonly head: Head;
  readonly id: string;
  /** SHA-256 of the command's canonical text, in hex. */
  readonly command?: string;
  /** Time of the commit, as an RFC 3339 timestamp in UTC. */
  readonly at: string;
  readonly by: string;
  readonly why?: string;
  readonly via?: Via;
  readonly events: readonly StoredEvent[];
}

/** Thrown if a command's events are too large for one commit. Nothing has been written. */
export class CommitTooLarge extends Error {
  override readonly name = 'CommitTooLarge';
  readonly bytes: number;

  constructor(bytes: number) {
    super(`the command's commit has ${bytes} bytes; at most ${commitBytesMax} are allowed`);
    this.bytes = bytes;
  }
}

/** Returns the raw bytes of the commit that would follow `head`. Throws `CommitTooLarge`. */
export function composeCommit(draft: CommitDraft): Buffer {
  const { head, id, command, at, by, why, via, events } = draft;
  if (head.log === null) throw new Error('a commit needs the id of its log');
  const { log, hash: prev } = head;
  const commit: Commit = { v: 1, log, seq: head.seq + 1, prev, id, command, at, by, why, via, events };
  const raw = Buffer.from(JSON.stringify(commit));
  if (raw.length > commitBytesMax) throw new CommitTooLarge(raw.length);
  return raw;
}
