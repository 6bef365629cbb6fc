/** Builds Kafka record batches as other producers may write them, with any codec, record count and content. */
import { createRequire } from 'node:module';
import { gzipSync } from 'node:zlib';

const crc32c: (bytes: Buffer) => number = createRequire(import.meta.url)(
  'kafkajs/src/protocol/recordBatch/crc32C/index.js',
);

export const codecs = { none: 0, gzip: 1, snappy: 2, lz4: 3, zstd: 4 } as const;
export type Codec = keyof typeof codecs;

export interface BatchParts {
  readonly firstOffset?: number;
  readonly attributes?: number;
  /** Number of records that the header claims. Defaults to the actual number. */
  readonly count?: number;
  readonly lastDelta?: number;
  /** The records, plain or compressed. */
  readonly content: Buffer;
  readonly magic?: number;
}

function varint(value: number): Buffer {
  let left = value < 0 ? -value * 2 - 1 : value * 2;
  const bytes: number[] = [];
  for (; left >= 0x80; left = Math.floor(left / 128)) bytes.push((left % 128) | 0x80);
  return Buffer.from([...bytes, left]);
}

const sized = (bytes: Buffer) => Buffer.concat([varint(bytes.length), bytes]);

/** Encodes one record; `delta` is its offset within the batch. */
export function record(
  delta: number,
  value: Buffer | null,
  headers: readonly [string, Buffer][] = [],
): Buffer {
  const body = [Buffer.from([0]), varint(0), varint(delta), varint(-1)];
  body.push(value === null ? varint(-1) : sized(value), varint(headers.length));
  for (const [name, content] of headers) body.push(sized(Buffer.from(name)), sized(content));
  return sized(Buffer.concat(body));
}

export function batch({ firstOffset = 0, attributes = 0, count = 1, content, ...rest }: BatchParts): Buffer {
  const { lastDelta = count - 1, magic = 2 } = rest;
  const header = Buffer.alloc(61);
  header.writeBigInt64BE(BigInt(firstOffset), 0);
  header.writeInt32BE(49 + content.length, 8);
  header.writeInt8(magic, 16);
  header.writeInt16BE(attributes, 21);
  header.writeInt32BE(lastDelta, 23);
  header.writeBigInt64BE(BigInt(Date.now()), 27);
  header.writeBigInt64BE(BigInt(Date.now()), 35);
  header.writeBigInt64BE(-1n, 43);
  header.writeInt16BE(-1, 51);
  header.writeInt32BE(-1, 53);
  header.writeInt32BE(count, 57);
  return sealed(Buffer.concat([header, content]));
}

function sealed(bytes: Buffer): Buffer {
  bytes.writeUInt32BE(crc32c(bytes.subarray(21)), 17);
  return bytes;
}

/**
 * Returns a stored batch as a mirroring tool writes it: base offset 0, no transaction, no known producer, and no timestamp
 * from a broker.
 */
export function unstored(bytes: Buffer): Buffer {
  const copy = Buffer.from(bytes);
  copy.writeBigInt64BE(0n, 0);
  copy.writeInt16BE(copy.readInt16BE(21) & ~0x18, 21);
  copy.fill(0xff, 43, 57);
  return sealed(copy);
}

/**
 * Encodes up to 127 bytes with a codec. Except for gzip, the output is the codec's uncompressed form, which every decoder
 * accepts.
 */
export function packed(codec: Codec, content: Buffer): Buffer {
  const length = content.length;
  switch (codec) {
    case 'none':
      return content;
    case 'gzip':
      return gzipSync(content);
    case 'snappy': {
      const block = Buffer.concat([Buffer.from([length, 60 << 2, length - 1]), content]);
      const frame = Buffer.from('82534e4150505900000000010000000100000000', 'hex');
      frame.writeInt32BE(block.length, 16);
      return Buffer.concat([frame, block]);
    }
    case 'lz4': {
      const frame = Buffer.from('04224d1860408200000080', 'hex');
      frame.writeUInt32LE(0x8000_0000 + length, 7);
      return Buffer.concat([frame, content, Buffer.alloc(4)]);
    }
    case 'zstd':
      return Buffer.concat([
        Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0x20, length, (length << 3) | 1, length >> 5, 0]),
        content,
      ]);
  }
}
