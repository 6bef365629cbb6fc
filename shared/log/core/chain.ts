/**
 * The accept rule: decides which records of the control log count, and in which order. It is pure and permanently frozen,
 * because two readers that disagree here end in different states. It turns a log's total order into compare-and-append, so
 * writers need no leader, lock or transaction. It reads only the envelope, the raw bytes, `log.created` and
 * `log.signers_set`; other events are up to the fold.
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

/** End of the chain as one reader has followed it. */
export interface Head {
  /** Log ID; null as long as any log is accepted. */
  readonly log: string | null;
  /** `seq` of the last accepted record; 0 before the first. */
  readonly seq: number;
  /** SHA-256 of the last accepted record's raw bytes, hex. */
  readonly hash: string;
  /** Ed25519 public keys, SPKI DER in base64. Empty if the log is not signed. */
  readonly signers: readonly string[];
}

/** Returns the head before the first record. With `expectedLog`, only that log's first record is accepted. */
export function emptyHead(expectedLog: string | null = null): Head {
  return { log: expectedLog, seq: 0, hash: genesisPrev, signers: [] };
}

/** SHA-256 of a record's raw bytes, hex. The next commit names it as its `prev`. */
export function recordHash(raw: Uint8Array): string {
  return hash('sha256', raw, 'hex');
}

/** Input of a rule. */
export interface Candidate {
  readonly head: Head;
  readonly commit: Commit;
  readonly raw: Buffer;
  readonly signature: Buffer | null;
  /** Keys that may sign this record. Empty if no signature is required. */
  readonly signers: readonly string[];
  /** Whether this record sets the signers of later records. */
  readonly namesSigners: boolean;
}

export interface ChainRule {
  readonly name: 'log' | 'genesis' | 'seq' | 'prev' | 'signature';
  readonly holds: (candidate: Candidate) => boolean;
}

/** Clauses of the accept rule. A record counts if all of them hold. The expensive clause comes last. */
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
  /** The record extends the chain and `head` is the new end. */
  | { readonly accepted: Commit; readonly head: Head }
  /** The record does not count. `skipped` is the first clause that it breaks. */
  | { readonly skipped: SkipReason };

/** Applies the accept rule to one record. Never throws. Only tests pass other rules. */
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

/** Returns the signers that this commit sets for later records; undefined if it does not change them. */
function findNamedSigners(head: Head, commit: Commit): readonly string[] | undefined {
  return head.seq === 0 ? parseGenesis(commit)?.signers : findSetSigners(commit);
}

/** Returns the keys that may sign a record. The record that names the first signers must be signed by one of them. */
function allowedSigners(head: Head, named: readonly string[] | undefined): readonly string[] {
  return head.signers.length > 0 ? head.signers : (named ?? []);
}

/**
 * Judges records in bulk, with one judgement per record. In a signed log it verifies only the last accepted signature,
 * because the chain covers the records before it, and those of records that change the signers. If the last one is invalid,
 * every record is judged one by one. The result equals that of `judge`, except that a genuine record with a damaged signature
 * counts, because a later signature proves its bytes.
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
  // A record that names signers has already been verified with the keys of the previous signers.
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

/** Assumes that signatures are valid, except those of records that name signers, such as the genesis. */
function assumeSigned(rule: ChainRule): ChainRule {
  return {
    name: rule.name,
    holds: (candidate) =>
      candidate.namesSigners
        ? rule.holds(candidate)
        : candidate.signers.length === 0 || candidate.signature?.length === signatureBytes,
  };
}

/** Formats of the two events that the rule reads, so that a new event version can never change which records count. */
const signersSchema = z.array(z.string().max(200)).max(16);
const genesisSchema = z.object({ log: idSchema, signers: signersSchema.optional() });
const signersSetSchema = z.object({ signers: signersSchema.min(1) });

/** Returns the signers that a commit sets, if `log.signers_set` is its only event and is critical; otherwise undefined. */
function findSetSigners(commit: Commit): readonly string[] | undefined {
  const event = commit.events[0];
  if (event?.type !== 'log.signers_set' || !event.critical || commit.events.length !== 1) return undefined;
  return signersSetSchema.safeParse(event.data).data?.signers;
}

/** Returns the data of `log.created` if this is a well-formed first commit; undefined otherwise. */
function parseGenesis(commit: Commit): { readonly signers: readonly string[] } | undefined {
  const event = commit.events[0];
  if (event?.type !== 'log.created' || commit.events.length !== 1) return undefined;
  const parsed = genesisSchema.safeParse(event.data);
  if (!parsed.success || parsed.data.log !== commit.log) return undefined;
  return { signers: parsed.data.signers ?? [] };
}

/** A commit that is not in the log yet: the events of one command. */
export interface CommitDraft {
  /** Head that the commit follows. Its `log` must not be null. */
  readonly head: Head;
  readonly id: string;
  /** SHA-256 of the command's canonical text, hex. */
  readonly command?: string;
  /** Time of the commit, RFC 3339 in UTC. */
  readonly at: string;
  readonly by: string;
  readonly why?: string;
  readonly via?: Via;
  readonly events: readonly StoredEvent[];
}

/** Thrown if a command is too large for one commit. Nothing has been written. */
export class CommitTooLarge extends Error {
  override readonly name = 'CommitTooLarge';
  readonly bytes: number;

  constructor(bytes: number) {
    super(`the command's commit has ${bytes} bytes; at most ${commitBytesMax} are allowed`);
    this.bytes = bytes;
  }
}

/** Returns the raw bytes of the commit that follows `head`. Throws CommitTooLarge. */
export function composeCommit(draft: CommitDraft): Buffer {
  const { head, id, command, at, by, why, via, events } = draft;
  if (head.log === null) throw new Error('a commit needs the id of its log');
  const { log, hash: prev } = head;
  const commit: Commit = { v: 1, log, seq: head.seq + 1, prev, id, command, at, by, why, via, events };
  const raw = Buffer.from(JSON.stringify(commit));
  if (raw.length > commitBytesMax) throw new CommitTooLarge(raw.length);
  return raw;
}
