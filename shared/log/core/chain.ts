/**
 * The accept rule: which records of the control log count, and in which order. Pure, and permanently frozen: two
 * readers that disagree here have different states. It turns a log's total order into compare-and-append, so writers need no
 * leader, no lock and no transaction; duplicates, late writes, forgeries and re-created logs are skipped by every reader.
 * It reads the envelope, the raw bytes, `log.created` and `log.signers_set` alone; what the other events mean is the
 * fold's business.
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

/** The end of the chain as one reader has followed it. */
export interface Head {
  /** Id of the log; null while any log is accepted. */
  readonly log: string | null;
  /** `seq` of the last accepted record; 0 before the first. */
  readonly seq: number;
  /** SHA-256 of the last accepted record's raw bytes, hex. */
  readonly hash: string;
  /** Ed25519 public keys, SPKI DER in base64; empty where the log is not signed. */
  readonly signers: readonly string[];
}

/** The head before the first record. With `expectedLog`, only that log's first record is accepted. */
export function emptyHead(expectedLog: string | null = null): Head {
  return { log: expectedLog, seq: 0, hash: genesisPrev, signers: [] };
}

/** The hash that the next commit names as its `prev`: SHA-256 of a record's raw bytes, hex. */
export function recordHash(raw: Uint8Array): string {
  return hash('sha256', raw, 'hex');
}

/** What a rule may read. */
export interface Candidate {
  readonly head: Head;
  readonly commit: Commit;
  readonly raw: Buffer;
  readonly signature: Buffer | null;
  /** The keys that may sign this record; empty where no signature is needed. */
  readonly signers: readonly string[];
  /** Whether this record names the signers of the next ones. */
  readonly namesSigners: boolean;
}

export interface ChainRule {
  readonly name: 'log' | 'genesis' | 'seq' | 'prev' | 'signature';
  readonly holds: (candidate: Candidate) => boolean;
}

/** The clauses of the accept rule; a record counts where all of them hold. The expensive one is last. */
export const chainRules: readonly ChainRule[] = [
  { name: 'log', holds: ({ head, commit }) => head.log === null || commit.log === head.log },
  { name: 'seq', holds: ({ head, commit }) => commit.seq === head.seq + 1 },
  { name: 'prev', holds: ({ head, commit }) => commit.prev === head.hash },
  { name: 'genesis', holds: ({ head, commit }) => head.seq > 0 || genesisOf(commit) !== undefined },
  {
    name: 'signature',
    holds: ({ signers, raw, signature }) => signers.length === 0 || verify(signers, raw, signature),
  },
];

export type SkipReason = 'unreadable' | ChainRule['name'];

export type Judgement =
  /** The record extends the chain, and `head` is its end now. */
  | { readonly accepted: Commit; readonly head: Head }
  /** The record does not count; the name of the first clause that it breaks. */
  | { readonly skipped: SkipReason };

/** Applies the accept rule to one record. Never throws. Only tests pass other rules. */
export function judge(head: Head, record: LogRecord, rules: readonly ChainRule[] = chainRules): Judgement {
  const { value: raw, signature } = record;
  const commit = parseCommit(raw);
  if (!commit) return { skipped: 'unreadable' };
  const named = signersNamedBy(head, commit);
  const signers = signersOf(head, named);
  const candidate = { head, commit, raw, signature, signers, namesSigners: named !== undefined };
  const broken = rules.find((rule) => !rule.holds(candidate));
  if (broken) return { skipped: broken.name };
  const { log, seq } = commit;
  return { accepted: commit, head: { log, seq, hash: recordHash(raw), signers: named ?? head.signers } };
}

/** The signers from the next record on, where this commit names them; undefined where it changes nothing. */
function signersNamedBy(head: Head, commit: Commit): readonly string[] | undefined {
  return head.seq === 0 ? genesisOf(commit)?.signers : signersSetBy(commit);
}

/** The signers before a record must sign it. Where there are none, a record that names the first ones is signed by one of them. */
function signersOf(head: Head, named: readonly string[] | undefined): readonly string[] {
  return head.signers.length > 0 ? head.signers : (named ?? []);
}

/**
 * Judges records in bulk, one judgement each: of a signed log only the last accepted signature is verified, because the
 * chain covers the records before it, and that of each record that changes the signers, because other keys sign the records
 * after it; where the last one fails, every record is judged by itself.
 * A writer without a signer's key cannot add a record to the chain in this way. The result equals that of `judge`, except
 * where the stored signature of a record that a signer wrote was damaged: `judge` skips that record, while here the
 * signature of a later record proves its bytes.
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
  // A record that names signers was already verified, with the keys of the signers before it.
  const { accepted, head: end } = judgement;
  if (accepted.seq === 1 || signersSetBy(accepted) !== undefined) return optimistic;
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

/** Assumes a valid signature, except of a record that names signers: the genesis signature is always verified. */
function assumeSigned(rule: ChainRule): ChainRule {
  return {
    name: rule.name,
    holds: (candidate) =>
      candidate.namesSigners
        ? rule.holds(candidate)
        : candidate.signers.length === 0 || candidate.signature?.length === signatureBytes,
  };
}

/** Separate from `schemas/events/events.ts`, so that a new version of an event can never change which records count. */
const signersSchema = z.array(z.string().max(200)).max(16);
const genesisSchema = z.object({ log: idSchema, signers: signersSchema.optional() });
const signersSetSchema = z.object({ signers: signersSchema.min(1) });

/**
 * The signers that a commit after the first one sets, or undefined. Only where it contains no other event, and the event is
 * critical, so that a reader that does not know it halts: every other commit leaves the signers unchanged.
 */
function signersSetBy(commit: Commit): readonly string[] | undefined {
  const event = commit.events[0];
  if (event?.type !== 'log.signers_set' || !event.critical || commit.events.length !== 1) return undefined;
  return signersSetSchema.safeParse(event.data).data?.signers;
}

/** The data of `log.created` in a well-formed first commit, or undefined. */
function genesisOf(commit: Commit): { readonly signers: readonly string[] } | undefined {
  const event = commit.events[0];
  if (event?.type !== 'log.created' || commit.events.length !== 1) return undefined;
  const parsed = genesisSchema.safeParse(event.data);
  if (!parsed.success || parsed.data.log !== commit.log) return undefined;
  return { signers: parsed.data.signers ?? [] };
}

/** One command's events, before they are in the log. */
export interface CommitDraft {
  /** The head that the commit follows. Its `log` must be known. */
  readonly head: Head;
  readonly id: string;
  /** SHA-256 of the command's canonical text, hex. */
  readonly command?: string;
  /** RFC 3339, UTC. */
  readonly at: string;
  readonly by: string;
  readonly why?: string;
  readonly via?: Via;
  readonly events: readonly StoredEvent[];
}

/** The command is too large for one commit. Nothing was written. */
export class CommitTooLarge extends Error {
  override readonly name = 'CommitTooLarge';
  readonly bytes: number;

  constructor(bytes: number) {
    super(`the command's commit has ${bytes} bytes; at most ${commitBytesMax} are allowed`);
    this.bytes = bytes;
  }
}

/** The raw bytes of the commit that follows `head`. Throws CommitTooLarge. */
export function composeCommit(draft: CommitDraft): Buffer {
  const { head, id, command, at, by, why, via, events } = draft;
  if (head.log === null) throw new Error('a commit needs the id of its log');
  const { log, hash: prev } = head;
  const commit: Commit = { v: 1, log, seq: head.seq + 1, prev, id, command, at, by, why, via, events };
  const raw = Buffer.from(JSON.stringify(commit));
  if (raw.length > commitBytesMax) throw new CommitTooLarge(raw.length);
  return raw;
}
