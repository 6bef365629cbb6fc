/** The names under which the ends of sessions and links are known. In the log stands a digest, from which nobody can make an id. */
import { createHash } from 'node:crypto';

/** The longest life of a session. */
export const sessionMsMax = 8 * 3600_000;

export function sessionSubject(id: string): string {
  return createHash('sha256').update(id).digest('hex');
}

/** Who makes members and their links is an owner or admin of the organisation, so all of these count as its own. No person has such an id. */
export function linksSubject(organisation: string): string {
  return `links:${createHash('sha256').update(organisation).digest('base64url')}`;
}

/** The sessions of one person by links of an organisation. */
export function memberSubject(organisation: string, person: string): string {
  return sessionSubject(`${organisation} ${person}`);
}
