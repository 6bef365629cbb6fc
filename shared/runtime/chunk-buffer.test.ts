import fc from 'fast-check';
import { expect, test } from 'vitest';
import { ChunkBuffer } from './chunk-buffer.ts';

/** Splits bytes into chunks as sockets emit them. Each chunk has memory of its own or is a view of a larger buffer. */
function chunksOf(bytes: Buffer, sizes: readonly number[], own: boolean): Buffer[] {
  const chunks: Buffer[] = [];
  for (let at = 0, n = 0; at < bytes.length; n++) {
    const size = Math.max(1, sizes[n % sizes.length] ?? 1);
    const chunk = bytes.subarray(at, at + size);
    chunks.push(own ? Buffer.from(new Uint8Array(chunk).buffer) : chunk);
    at += size;
  }
  return chunks;
}

test('the content is the same however it is cut into chunks, whole and in blocks', () => {
  fc.assert(
    fc.property(
      fc.uint8Array({ maxLength: 20_000 }),
      fc.array(fc.integer({ min: 1, max: 9_000 }), { minLength: 1, maxLength: 5 }),
      fc.boolean(),
      (array, sizes, own) => {
        const bytes = Buffer.from(array);
        const buffer = new ChunkBuffer();
        for (const chunk of chunksOf(bytes, sizes, own)) expect(buffer.add(chunk)).toBe(true);
        expect(buffer.length).toBe(bytes.length);
        expect(buffer.whole().equals(bytes)).toBe(true);
        expect(Buffer.concat(buffer.detach()).equals(bytes)).toBe(true);
        expect(buffer.length).toBe(0);
      },
    ),
  );
});

test.each([1, 2, 7, 509, 65_521, 1_000_003])(
  'chunks of %i bytes allocate at most twice their length in few blocks, within the reservation',
  (size) => {
    const bytesMax = 2 * 1024 * 1024;
    let reserved = 0;
    let blocks = 0;
    const buffer = new ChunkBuffer({
      bytesMax,
      reserve: (bytes) => {
        reserved += bytes;
        blocks++;
        return true;
      },
    });
    const chunk = Buffer.alloc(size, 1);
    for (let at = size; at <= bytesMax; at += size) buffer.add(chunk);
    expect(buffer.allocatedBytes).toBe(reserved);
    expect(reserved).toBeLessThanOrEqual(bytesMax);
    expect(reserved).toBeLessThanOrEqual(Math.max(4096, 2 * buffer.length));
    expect(blocks).toBeLessThan(40);
  },
);

test('a chunk that exceeds the budget or the maximum length is not added', () => {
  let left = 5000;
  const reserve = (bytes: number) => {
    if (bytes > left) return false;
    left -= bytes;
    return true;
  };
  const buffer = new ChunkBuffer({ reserve, bytesMax: 6000 });
  expect(buffer.add(Buffer.alloc(6001))).toBe(false);
  expect(buffer.add(Buffer.alloc(4000, 1))).toBe(true);
  expect(buffer.add(Buffer.alloc(1500, 2))).toBe(false);
  expect(buffer.length).toBe(4000);
  expect(buffer.whole().every((byte) => byte === 1)).toBe(true);
  expect(buffer.allocatedBytes).toBe(5000 - left);
});

test('detached blocks can be transferred, and the chunks keep their memory', () => {
  const buffer = new ChunkBuffer();
  const first = Buffer.from(new Uint8Array([1, 2, 3]).buffer);
  buffer.add(first);
  buffer.add(Buffer.from([4]));
  const blocks = buffer.detach();
  const moved = structuredClone(blocks, { transfer: blocks.map(({ buffer }) => buffer) });
  expect(Buffer.concat(moved)).toEqual(Buffer.from([1, 2, 3, 4]));
  expect(first).toEqual(Buffer.from([1, 2, 3]));
});
