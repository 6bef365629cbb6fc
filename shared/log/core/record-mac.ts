/**
 * Authenticates the records that processes exchange, because write access to a topic alone must not be enough. Each record
 * has an HMAC-SHA256 under the gateway token, in the header that carries the signature of a control log record. The token is
 * shared, so its holder can write under any name.
 */
import { createHash, hash, timingSafeEqual } from 'node:crypto';
import type { LogRecord } from './control-log.ts';

/** Of SHA-256: a block of its input, and its result. */
const blockBytes = 64;
const hashBytes = 32;

/** A key of HMAC (RFC 2104), ready for the hash of a value: two hashes in one call each cost half of what `createHmac` does. */
interface Key {
  /** The inner pad and the domain. */
  readonly inner: Buffer;
  /** The outer pad; the inner hash is written behind it. */
  readonly outer: Buffer;
}

function keyOf(token: string, domain: string): Key {
  const bytes = Buffer.from(token);
  const short = bytes.length > blockBytes ? createHash('sha256').update(bytes).digest() : bytes;
  const padded = (pad: number) => Buffer.alloc(blockBytes).map((_, index) => (short[index] ?? 0) ^ pad);
  return {
    inner: Buffer.concat([padded(0x36), Buffer.from(domain)]),
    outer: Buffer.concat([padded(0x5c), Buffer.alloc(hashBytes)]),
  };
}

/** Why a record does not count. */
export type MacRefusal = 'unsigned' | 'wrong_mac';

export class RecordMac {
  readonly #keys: readonly [Key, ...Key[]];

  /**
   * The first token signs; all are accepted, so that tokens can be rotated. None may be empty.
   * `topic` separates the domains: a record is not valid on another topic.
   */
  constructor(topic: string, ...tokens: readonly [string, ...string[]]) {
    if (tokens.includes('')) throw new Error('a gateway token is empty');
    const [first, ...others] = tokens;
    const domain = `${topic}\n`;
    this.#keys = [keyOf(first, domain), ...others.map((token) => keyOf(token, domain))];
  }

  of(value: Uint8Array): Buffer {
    return mac(this.#keys[0], value);
  }

  accepts(value: Uint8Array, given: Uint8Array): boolean {
    return this.signerOf(value, given) !== undefined;
  }

  /** Which of the tokens made this MAC, counted from 0. Compares in constant time. */
  signerOf(value: Uint8Array, given: Uint8Array): number | undefined {
    const index = this.#keys.findIndex((key) => {
      const wanted = mac(key, value);
      return given.length === wanted.length && timingSafeEqual(given, wanted);
    });
    return index === -1 ? undefined : index;
  }
}

/** Undefined where the record has a MAC of one of the tokens; without a token none has. */
export function macRefusalOf(
  { value, signature }: Pick<LogRecord, 'value' | 'signature'>,
  recordMac: RecordMac | undefined,
): MacRefusal | undefined {
  if (signature === null || signature.length === 0) return 'unsigned';
  return recordMac?.accepts(value, signature) ? undefined : 'wrong_mac';
}

/** Records of a topic that do not count because of their MAC, since the start, with the first and the last offset. */
export interface RefusedRecords {
  readonly count: number;
  readonly first: number;
  readonly last: number;
  /** Of the processes that they claim to be of, as far as they state one; the first few. */
  readonly claimed?: readonly string[];
}

const claimedMax = 10;

/** With one more; `claimed`: of which process it says it is. */
export function addRefused(
  before: RefusedRecords | undefined,
  offset: number,
  claimed?: string,
): RefusedRecords {
  const { count = 0, first = offset, claimed: known = [] } = before ?? {};
  const isNew = claimed !== undefined && !known.includes(claimed) && known.length < claimedMax;
  const names = isNew ? [...known, claimed] : known;
  return { count: count + 1, first, last: offset, ...(names.length > 0 && { claimed: names }) };
}

function mac({ inner, outer }: Key, value: Uint8Array): Buffer {
  hash('sha256', Buffer.concat([inner, value]), 'buffer').copy(outer, blockBytes);
  return hash('sha256', outer, 'buffer');
}
