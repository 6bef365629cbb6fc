/**
 * Authenticates the records that processes exchange, because write access to a topic must not be enough to forge one. Each
 * record has an HMAC-SHA256 under the gateway token. Everyone with the token can write under any process's name.
 */
import { createHash, hash, timingSafeEqual } from 'node:crypto';
import type { LogRecord } from './control-log.ts';

/** Sizes in bytes of SHA-256's input block and of its result. */
const blockBytes = 64;
const hashBytes = 32;

/** Prepared HMAC key (RFC 2104). Computing the HMAC as two one-shot hashes costs half as much as `createHmac`. */
interface Key {
  /** Inner pad of HMAC, followed by the topic's name, so that a MAC is valid for this topic only. */
  readonly inner: Buffer;
  /** Outer pad of HMAC, followed by room for the inner hash. */
  readonly outer: Buffer;
}

function createMacKey(token: string, domain: string): Key {
  const bytes = Buffer.from(token);
  const short = bytes.length > blockBytes ? createHash('sha256').update(bytes).digest() : bytes;
  const padded = (pad: number) => Buffer.alloc(blockBytes).map((_, index) => (short[index] ?? 0) ^ pad);
  return {
    inner: Buffer.concat([padded(0x36), Buffer.from(domain)]),
    outer: Buffer.concat([padded(0x5c), Buffer.alloc(hashBytes)]),
  };
}

export type MacRefusal = 'unsigned' | 'wrong_mac';

export class RecordMac {
  readonly #keys: readonly [Key, ...Key[]];

  /** Signs with the first token and accepts all, so that tokens can be rotated. Throws if a token is empty. */
  constructor(topic: string, ...tokens: readonly [string, ...string[]]) {
    if (tokens.includes('')) throw new Error('a gateway token is empty');
    const [first, ...others] = tokens;
    const domain = `${topic}\n`;
    this.#keys = [createMacKey(first, domain), ...others.map((token) => createMacKey(token, domain))];
  }

  of(value: Uint8Array): Buffer {
    return mac(this.#keys[0], value);
  }

  accepts(value: Uint8Array, given: Uint8Array): boolean {
    return this.signerOf(value, given) !== undefined;
  }

  /** Index of the token under which `given` is the MAC of `value`, or undefined for none. Compares in constant time. */
  signerOf(value: Uint8Array, given: Uint8Array): number | undefined {
    const index = this.#keys.findIndex((key) => {
      const wanted = mac(key, value);
      return given.length === wanted.length && timingSafeEqual(given, wanted);
    });
    return index === -1 ? undefined : index;
  }
}

/** Returns why the record's MAC is refused, or undefined if it is valid. Without `recordMac`, all are refused. */
export function checkMac(
  { value, signature }: Pick<LogRecord, 'value' | 'signature'>,
  recordMac: RecordMac | undefined,
): MacRefusal | undefined {
  if (signature === null || signature.length === 0) return 'unsigned';
  return recordMac?.accepts(value, signature) ? undefined : 'wrong_mac';
}

/** Number of records on a topic that were refused because of their MAC since the process started. */
export interface RefusedRecords {
  readonly count: number;
  readonly first: number;
  readonly last: number;
  /** Process names that the refused records claim to come from, at most the first ten. */
  readonly claimed?: readonly string[];
}

const claimedMax = 10;

/** Adds a refused record to the count. `claimed` is the process name in the record. */
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
