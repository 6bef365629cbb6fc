import { expect, test } from 'vitest';
import { BoundedMap } from './bounded-map.ts';

test('a full map drops everything or the oldest entry, but nothing if a known key is set again', () => {
  const keys = (dropped: 'all' | 'oldest'): string[] => {
    const map = new BoundedMap<string, number>(3, dropped);
    for (const key of ['a', 'b', 'c', 'c']) map.set(key, 1);
    expect([...map.keys()]).toEqual(['a', 'b', 'c']);
    expect(map.keep('a', 2)).toBe(2);
    return [...map.set('d', 1).keys()];
  };
  expect(keys('all')).toEqual(['d']);
  expect(keys('oldest')).toEqual(['c', 'a', 'd']);
});
