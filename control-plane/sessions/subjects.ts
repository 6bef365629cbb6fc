/** Names under which ended sessions and links are recorded: digests, from which nobody can derive an id. */
import { createHash } from 'node:crypto';

/** Longest life of a session, in ms. */
export const sessionMsMax = 8 * 3600_000;

export function sessionSubject(id: string): string {
  return createHash('sha256').update(id).digest('hex');
}

/** Subject of all sign-in links of an organisation, which only its owners and admins create. No person has such an id. */
export function linksSubject(organisation: string): string {
  return `links:${createHash('sha256').update(organisation).digest('base64url')}`;
}

/** Subject of one person's sessions from an organisation's links. */
export function memberSubject(organisation: string, person: string): string {
  return sessionSubject(`${organisation} ${person}`);
}
