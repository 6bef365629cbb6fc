/** Tests the model document that clients of both API families read. */
import { expect, test } from 'vitest';
import { modelEntry, modelListing } from './model-listing.ts';

const model = (id: string, added = '2026-11-20T00:00:00Z') => ({ id, family: 'qwen3', added });

test('Model listing entry: identifier, family and creation time appear in both client families’ fields', () => {
  expect(modelEntry(model('qwen3-8b'))).toEqual({
    id: 'qwen3-8b',
    object: 'model',
    type: 'model',
    family: 'qwen3',
    created: 1_795_132_800,
    created_at: '2026-11-20T00:00:00Z',
    display_name: 'qwen3-8b',
    owned_by: 'qwen3',
  });
});

test('the newest models come first, and equally old ones are sorted by id', () => {
  const listing = modelListing([model('b'), model('c', '2026-11-21T00:00:00Z'), model('a')]);
  expect(listing.data.map(({ id }) => id)).toEqual(['c', 'a', 'b']);
  expect(listing).toMatchObject({ object: 'list', has_more: false, first_id: 'c', last_id: 'b' });
});

test('an empty list is still a complete document', () => {
  expect(modelListing([])).toEqual({
    object: 'list',
    data: [],
    has_more: false,
    first_id: null,
    last_id: null,
  });
});
