/** Tests the prefix table with many tenants: which tenant loses an entry when the table is full. */
import { expect, test } from 'vitest';
import { PrefixTable } from './prefix-table.ts';

function filled(sizes: Readonly<Record<string, number>>): PrefixTable {
  const table = new PrefixTable(Object.values(sizes).reduce((sum, size) => sum + size, 0));
  for (const [owner, size] of Object.entries(sizes)) for (let n = 0; n < size; n++) table.use(owner, n);
  return table;
}

test('a tenant above its share gives up its own least recently used entry, even if another has more', () => {
  const table = filled({ large: 55, small: 5, other: 40 });
  table.use('other', 0);
  table.use('other', 1000);
  expect([table.countEntries('large'), table.countEntries('small'), table.countEntries('other')]).toEqual([
    55, 5, 40,
  ]);
  expect(table.get('other', 1)).toBe(undefined);
  expect(table.get('other', 0)).not.toBe(undefined);
});

test('a tenant below its share takes an entry from one that has more', () => {
  const table = filled({ large: 55, small: 5, other: 40 });
  table.use('small', 1000);
  expect([table.countEntries('large'), table.countEntries('small'), table.countEntries('other')]).toEqual([
    54, 6, 40,
  ]);
});
