/**
 * GET /v1/models: one document that the clients of both families read, with identifier, family and the time added
 * (Model listing entry). The order is the newest first, then by id, so that two answers compare equal.
 * `owned_by` repeats the family: it never tells an organisation.
 */

export interface ListedModel {
  readonly id: string;
  readonly family: string;
  /** RFC 3339. */
  readonly added: string;
}

/** The document of one model. */
export function modelEntry({ id, family, added }: ListedModel) {
  const addedMs = Date.parse(added);
  return {
    id,
    object: 'model',
    type: 'model',
    family,
    created: Math.floor(addedMs / 1000),
    created_at: new Date(addedMs).toISOString().replace('.000Z', 'Z'),
    display_name: id,
    owned_by: family,
  };
}

/** The document of a list; complete, so `has_more` is always false. */
export function modelListing(models: readonly ListedModel[]) {
  const data = models.map(modelEntry).sort((a, b) => b.created - a.created || (a.id < b.id ? -1 : 1));
  return {
    object: 'list',
    data,
    has_more: false,
    first_id: data[0]?.id ?? null,
    last_id: data[data.length - 1]?.id ?? null,
  };
}
