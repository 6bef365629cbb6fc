/**
 * Deciders for API keys (Authentication 4 to 6). The value is minted here, is in the answer once, and reaches neither
 * the log nor the state: they hold its SHA-256.
 */
import { dayMs } from '../../schemas/durations.ts';
import type { ExpiryChoice } from '../../schemas/names.ts';
import { hashKey, mintId, mintKey } from '../../shared/ids/api-key.ts';
import { findKey, findOrganisation } from '../state/tenants.ts';
import { defineCommands } from './definition.ts';
import { needKey, needOrganisation } from './preconditions.ts';

/** When a key created at `nowMs` expires, ms since 1970; null: never. A year from 29 February ends on 1 March. */
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

export const keyCommands = defineCommands({
  'key.create': {
    organisationOf: (db, { body: { organisation } }) => findOrganisation(db, organisation)?.id,
    decide: (db, { body: { organisation, name, expires } }, { nowMs, mint }) => {
      needOrganisation(db, organisation);
      const id = mintId(mint, 'key');
      const value = mintKey(mint);
      const ends = expiresAtMs(expires, nowMs);
      const expiresAt = ends === null ? null : new Date(ends).toISOString();
      const hash = hashKey(value).toString('hex');
      return {
        events: [{ type: 'key.created', data: { id, organisation, name, hash, expires, expiresAt } }],
        subject: id,
        secret: { value },
      };
    },
    show: (db, _input, subject = '', nowMs) => findKey(db, subject, nowMs) ?? { id: subject },
  },
  'key.revoke': {
    organisationOf: (db, { params: { id } }) => findKey(db, id, 0)?.organisation,
    decide: (db, { params: { id } }, { nowMs }) =>
      needKey(db, id, nowMs).state === 'revoked'
        ? { events: [] }
        : { events: [{ type: 'key.revoked', data: { id } }] },
    show: (db, { params: { id } }, _subject, nowMs) => findKey(db, id, nowMs) ?? { id },
  },
});
