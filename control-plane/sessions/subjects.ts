/** Names under which ended sessions and used links are recorded. They are digests, from which nobody can derive an id. */
import { createHash } from 'node:crypto';

export const sessionMsMax = 8 * 3600_000;

export function sessionSubject(id: string): string {
  return createHash('sha256').update(id).digest('hex');
}

/** Returns the subject for all sign-in links that an organisation's owners and admins create. No person has this id. */
export function linksSubject(organisation: string): string {
  return `links:${createHash('sha256').update(organisation).digest('base64url')}`;
}

/** Returns the subject for the sessions that one person began with an organisation's sign-in links. */
export function memberSubject(organisation: string, person: string): string {
  return sessionSubject(`${organisation} ${person}`);
}
