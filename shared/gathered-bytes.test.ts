import fc from 'fast-check';
import { expect, test } from 'vitest';
import { GatheredBytes } from './gathered-bytes.ts';

/** Pieces of these bytes, each of its own memory or cut from a larger block, as sockets hand them over. */
function piecesOf(bytes: Buffer, sizes: readonly number[], own: boolean): Buffer[] {
  const pieces: Buffer[] = [];
  for (let at = 0, turn = 0; at < bytes.length; turn++) {
    const size = Math.max(1, sizes[turn % sizes.length] ?? 1);
    const piece = bytes.subarray(at, at + size);
    pieces.push(own ? Buffer.from(new Uint8Array(piece).buffer) : piece);
    at += size;
  }
  return pieces;
}

test('whatever the pieces, the bytes come back as they were, whole and in blocks', () => {
  fc.assert(
    fc.property(
      fc.uint8Array({ maxLength: 20_000 }),
      fc.array(fc.integer({ min: 1, max: 9_000 }), { minLength: 1, maxLength: 5 }),
      fc.boolean(),
      (array, sizes, own) => {
        const bytes = Buffer.from(array);
        const gathered = new GatheredBytes();
        for (const piece of piecesOf(bytes, sizes, own)) expect(gathered.add(piece)).toBe(true);
        expect(gathered.length).toBe(bytes.length);
        expect(gathered.whole().equals(bytes)).toBe(true);
        expect(Buffer.concat(gathered.handOver()).equals(bytes)).toBe(true);
        expect(gathered.length).toBe(0);
      },
    ),
  );
});

test.each([1, 2, 7, 509, 65_521, 1_000_003])(
  'pieces of %i bytes hold at most twice what came, in few blocks, and no more than was taken',
  (size) => {
    const bytesMax = 2 * 1024 * 1024;
    let taken = 0;
    let blocks = 0;
    const gathered = new GatheredBytes({
      bytesMax,
      take: (bytes) => {
        taken += bytes;
        blocks++;
        return true;
      },
    });
    const piece = Buffer.alloc(size, 1);
    for (let at = size; at <= bytesMax; at += size) gathered.add(piece);
    expect(gathered.heldBytes).toBe(taken);
    expect(taken).toBeLessThanOrEqual(bytesMax);
    expect(taken).toBeLessThanOrEqual(Math.max(4096, 2 * gathered.length));
    expect(blocks).toBeLessThan(40);
  },
);

test('a piece that the budget refuses, or that is too much, is not added', () => {
  let left = 5000;
  const take = (bytes: number) => {
    if (bytes > left) return false;
    left -= bytes;
    return true;
  };
  const gathered = new GatheredBytes({ take, bytesMax: 6000 });
  expect(gathered.add(Buffer.alloc(6001))).toBe(false);
  expect(gathered.add(Buffer.alloc(4000, 1))).toBe(true);
  expect(gathered.add(Buffer.alloc(1500, 2))).toBe(false);
  expect(gathered.length).toBe(4000);
  expect(gathered.whole().every((byte) => byte === 1)).toBe(true);
  expect(gathered.heldBytes).toBe(5000 - left);
});

test('blocks that are handed over can be transferred, and take nothing from the pieces', () => {
  const gathered = new GatheredBytes();
  const first = Buffer.from(new Uint8Array([1, 2, 3]).buffer);
  gathered.add(first);
  gathered.add(Buffer.from([4]));
  const blocks = gathered.handOver();
  const moved = structuredClone(blocks, { transfer: blocks.map(({ buffer }) => buffer) });
  expect(Buffer.concat(moved)).toEqual(Buffer.from([1, 2, 3, 4]));
  expect(first).toEqual(Buffer.from([1, 2, 3]));
});
