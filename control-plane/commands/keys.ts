/** Decides commands on API keys (Authentication 4 to 6). The log and the state contain a key's SHA-256, never its value. */
import type { OperationBody } from '../../schemas/admin/admin.ts';
import { dayMs } from '../../schemas/durations.ts';
import type { KnownEvent } from '../../schemas/events/events.ts';
import type { ExpiryChoice } from '../../schemas/names.ts';
import { hashKey, mintId, mintKey } from '../../shared/ids/api-key.ts';
import type { Database } from '../../shared/runtime/sqlite.ts';
import { findKey, findOrganisation } from '../state/tenants.ts';
import { type CommandContext, defineCommands } from './definition.ts';
import { needAll, numberedIds } from './many.ts';
import { needKey, needOrganisation } from './preconditions.ts';

/** Returns a key's expiry time in ms since 1970, or null if it never expires. A year from 29 February ends on 1 March. */
export function expiresAtMs(choice: ExpiryChoice, nowMs: number): number | null {
  switch (choice) {
    case 'never':
      return null;
    case '30d':
      return nowMs + 30 * dayMs;
    case '90d':
      return nowMs + 90 * dayMs;
    case '1y': {
      const date = new Date(nowMs);
      return date.setUTCFullYear(date.getUTCFullYear() + 1);
    }
  }
}

type NewKey = OperationBody<'key.create'>;

/** Generates a key. Returns the event that creates it, and its value. */
function createdKey(
  { organisation, name, expires }: NewKey,
  id: string,
  { nowMs, mint }: Pick<CommandContext, 'nowMs' | 'mint'>,
): { readonly event: KnownEvent; readonly value: string } {
  const value = mintKey(mint);
  const ends = expiresAtMs(expires, nowMs);
  const expiresAt = ends === null ? null : new Date(ends).toISOString();
  const hash = hashKey(value).toString('hex');
  return {
    event: { type: 'key.created', data: { id, organisation, name, hash, expires, expiresAt } },
    value,
  };
}

/** Returns the organisation shared by all items, or undefined if they name several. Only an operator may name several. */
function organisationOfAll(db: Database, items: readonly NewKey[]): string | undefined {
  const [first, ...others] = new Set(items.map(({ organisation }) => organisation));
  return first === undefined || others.length > 0 ? undefined : findOrganisation(db, first)?.id;
}

export const keyCommands = defineCommands({
  'key.create': {
    findOrganisation: (db, { body: { organisation } }) => findOrganisation(db, organisation)?.id,
    decide: (db, { body }, context) => {
      needOrganisation(db, body.organisation);
      const id = mintId(context.mint, 'key');
      const { event, value } = createdKey(body, id, context);
      return { events: [event], subject: id, secret: { value } };
    },
    show: (db, _input, subject = '', nowMs) => findKey(db, subject, nowMs) ?? { id: subject },
    many: {
      findOrganisation: (db, { body: { items } }) => organisationOfAll(db, items),
      decide: (db, { body: { items } }, context) => {
        needAll(
          items.map(({ organisation }) => organisation),
          {
            ...{ field: 'organisation', what: 'organisation', noun: 'org' },
            isThere: (id) => findOrganisation(db, id) !== undefined,
          },
        );
        const subject = mintId(context.mint, 'key');
        const ids = numberedIds('key', subject, items.length);
        const made = items.map((item, index) => createdKey(item, ids[index] ?? '', context));
        const shown = items.map(({ organisation, name }, index) => ({
          ...{ id: ids[index] ?? '', organisation, name, value: made[index]?.value ?? '' },
        }));
        return { events: made.map(({ event }) => event), subject, secret: { items: shown } };
      },
      show: (_db, { body: { items } }, subject = '') => {
        const ids = numberedIds('key', subject, items.length);
        return {
          items: items.map(({ organisation, name }, index) => ({ id: ids[index], organisation, name })),
        };
      },
    },
  },
  'key.revoke': {
    findOrganisation: (db, { params: { id } }) => findKey(db, id, 0)?.organisation,
    decide: (db, { params: { id } }, { nowMs }) =>
      needKey(db, id, nowMs).state === 'revoked'
        ? { events: [] }
        : { events: [{ type: 'key.revoked', data: { id } }] },
    show: (db, { params: { id } }, _subject, nowMs) => findKey(db, id, nowMs) ?? { id },
  },
});
