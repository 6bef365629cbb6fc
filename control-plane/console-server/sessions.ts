/**
 * Console sessions. Each is sealed in a cookie, so every replica can read it and no replica stores it. Ending a session early
 * is an event in the log. Roles are looked up in the state at every request. A session from a link never has more rights than
 * whoever issued the link.
 */
import { randomBytes, randomUUID } from 'node:crypto';
import { z } from 'zod';
import { managingRoles } from '../../schemas/admin/admin-row.ts';
import type { KnownEvent } from '../../schemas/events/events.ts';
import { roleSchema } from '../../schemas/names.ts';
import { personSchema } from '../../schemas/shapes.ts';
import { wallClockMs } from '../../shared/runtime/clock.ts';
import { Sealer } from '../../shared/runtime/sealed-text.ts';
import { atOnce } from '../../shared/runtime/slices.ts';
import type { Snapshot } from '../../shared/snapshot/snapshot.ts';
import type { AdminContext } from '../admin-api/context.ts';
import { type Actor, actorName, authorise, membershipsOf } from '../commands/authorise.ts';
import type { CommandWriter } from '../commands/command-writer.ts';
import { checkOwners } from '../commands/ownership.ts';
import { CommandError } from '../core/command-error.ts';
import type { EndedSessions } from '../sessions/ended-sessions.ts';
import type { SignInLinks, Ticket } from '../sessions/sign-in-links.ts';
import { linksSubject, memberSubject, sessionMsMax, sessionSubject } from '../sessions/subjects.ts';
import { findMember, findOrganisation } from '../state/tenants.ts';

/** Duration in ms of sessions with rights from the identity provider. After that, the person must sign in again. */
const providerRightsMs = 3600_000;
const idleMs = 3600_000;
/** Minimum time in ms between two renewals of a cookie. */
const resealMs = 5 * 60_000;

const sessionSchema = z
  .object({
    v: z.literal(1),
    log: z.string(),
    id: z.string().length(43),
    kind: z.enum(['operator', 'member']),
    person: personSchema.optional(),
    /** Id of the operator, if the identity provider supplied it. Absent after sign-in with the operator token. */
    operator: personSchema.optional(),
    within: z.string().optional(),
    /** Excluded roles, copied from the link's ticket. */
    exceptRoles: z.array(roleSchema).optional(),
    /** Name of the person or operator for display, because the log contains no names of people. */
    name: z.string().max(200).optional(),
    /**
     * Position of the state when the session began. Positions are used because the clocks of two replicas cannot be compared.
     */
    position: z.int().min(0),
    endsMs: z.number(),
    sealedMs: z.number(),
  })
  .refine(({ kind, person }) => (kind === 'operator') === (person === undefined))
  .refine(({ kind, operator }) => kind === 'operator' || operator === undefined);
export type ConsoleSession = z.output<typeof sessionSchema>;

/** Identity of a person or operator who signs in. */
export interface Identity {
  /** Id of the person. Absent for an operator. */
  readonly person?: string | undefined;
  readonly operator?: string | undefined;
  readonly within?: string | undefined;
  readonly exceptRoles?: Ticket['exceptRoles'] | undefined;
  readonly name?: string | undefined;
}

export interface SessionsOptions {
  readonly operatorToken: string;
  readonly ended: EndedSessions;
  readonly state: () => Pick<Snapshot, 'log' | 'seq' | 'db'>;
  readonly writer: Pick<CommandWriter, 'writeOfSession'>;
  /** Wall clock in ms since 1970. */
  readonly now?: () => number;
}

export class Sessions {
  readonly #options: SessionsOptions;
  readonly #sealer: Sealer;
  readonly #ending = new Map<string, Promise<void>>();

  constructor(options: SessionsOptions) {
    this.#options = options;
    this.#sealer = new Sealer(options.operatorToken, 'console session');
  }

  begin({ person, operator, ...further }: Identity): ConsoleSession {
    const nowMs = this.#now();
    const { log, seq: position } = this.#options.state();
    const id = randomBytes(32).toString('base64url');
    const kind = person === undefined ? 'operator' : 'member';
    const lengthMs = operator === undefined ? sessionMsMax : providerRightsMs;
    const times = { endsMs: nowMs + lengthMs, sealedMs: nowMs };
    return { v: 1, log: log ?? '', id, kind, person, operator, ...further, position, ...times };
  }

  seal(session: ConsoleSession): string {
    return this.#sealer.seal({ ...session, sealedMs: this.#now() });
  }

  /** Opens the value of a cookie. Returns undefined if it does not contain a session that is valid now. */
  async open(text: string): Promise<ConsoleSession | undefined> {
    const session = this.#sealer.open(text, sessionSchema);
    if (!session) return undefined;
    await this.#options.ended.ready();
    return this.counts(session) ? session : undefined;
  }

  /** Whether the session is valid now. Open streams check this repeatedly. */
  counts(session: ConsoleSession): boolean {
    const { ended, state } = this.#options;
    const nowMs = this.#now();
    if (session.log !== (state().log ?? '') || session.endsMs <= nowMs) return false;
    if (session.sealedMs + idleMs <= nowMs || ended.hasEnded('session', sessionSubject(session.id)))
      return false;
    if (everywhereSubjects(session).some((subject) => ended.hasPersonEnded(subject, session.position)))
      return false;
    // The membership that justified the link must last as long as the session.
    return session.within === undefined || membershipsOf(state().db, actorOfSession(session)).length > 0;
  }

  needsSealing({ sealedMs }: ConsoleSession): boolean {
    return this.#now() - sealedMs >= resealMs;
  }

  /**
   * Ends this session, or all sessions of its person. For a session from a link, "all" means those in its organisation. If
   * the session has already ended, nothing is written, so an old cookie cannot fill the log. Rejects with `CommandError` if
   * the log does not accept the end.
   */
  end(session: ConsoleSession, everywhere: boolean): Promise<void> {
    const key = `${everywhere} ${session.id}`;
    const running = this.#ending.get(key);
    if (running !== undefined) return running;
    const ending = this.#end(session, everywhere).finally(() => this.#ending.delete(key));
    this.#ending.set(key, ending);
    return ending;
  }

  async #end(session: ConsoleSession, everywhere: boolean): Promise<void> {
    const until = new Date(everywhere ? this.#now() + sessionMsMax : session.endsMs).toISOString();
    const [subject = actorName(session)] = everywhereSubjects(session);
    const holder = session.within === undefined ? actorName(session) : linksSubject(session.within);
    const data = everywhere
      ? ({ kind: 'person', subject, until, ...(holder !== subject && { holder }) } as const)
      : ({ kind: 'session', subject: sessionSubject(session.id), holder, until } as const);
    await this.#options.ended.ready();
    await this.#write(session, actorName(session), () =>
      this.counts(session) ? [{ type: 'session.ended', data }] : [],
    );
  }

  /** Uses up a sign-in link. The log accepts only one use. `check` throws if the link is not valid at the log's head. */
  async useLink({ id, endsMs, person, within }: Ticket, check: () => void): Promise<void> {
    const { ended } = this.#options;
    const data = linkEnded(id, endsMs, within);
    await ended.ready();
    await this.#write({ person, within }, actorName({ person }), () => {
      check();
      if (ended.hasEnded('link', data.subject))
        throw new CommandError('Unauthorized', 'this sign-in link has already been used', {
          next: 'ask for a new link; operators run `headgate console open`',
        });
      return [{ type: 'session.ended', data }];
    });
  }

  /** Makes the person a member, unless they are one already, and uses up the invitation. Rejects if it is no longer valid. */
  async acceptInvitation(
    links: SignInLinks,
    text: string,
    person: string,
    { snapshot: { db } }: Pick<AdminContext, 'snapshot'>,
  ): Promise<void> {
    const { ended } = this.#options;
    const invitation = links.openInvitation(text);
    if (!invitation) throw new CommandError('Unauthorized', 'this invitation is no longer valid');
    const { organisation, role, by, id, endsMs } = invitation;
    // An operator may make any number of invitations, so they do not count against the organisation's limit.
    const used = linkEnded(id, endsMs, by === undefined ? undefined : organisation);
    const joined = { type: 'member.set', data: { organisation, person, role } } as const;
    await ended.ready();
    await this.#write({ person, within: organisation }, actorName({ person: by }), () => {
      if (findMember(db, organisation, person) !== undefined) return [];
      if (ended.hasEnded('link', used.subject))
        throw new CommandError('Unauthorized', 'this invitation has already been used');
      const exists = findOrganisation(db, organisation) !== undefined;
      if (!exists) throw new CommandError('NotFound', 'the organisation of this invitation no longer exists');
      authorise(db, { person: by }, managingRoles, () => organisation);
      atOnce(checkOwners(db, { person: by }, [joined]));
      return [{ type: 'session.ended', data: used }, joined];
    });
  }

  /** Writes events and counts them against the queue share of the actor who signs in or out, not of the commit's author. */
  async #write(of: Actor, by: string, events: () => readonly KnownEvent[]): Promise<void> {
    await this.#options.writer.writeOfSession(of, { id: randomUUID(), by }, events);
  }

  #now(): number {
    return (this.#options.now ?? wallClockMs)();
  }
}

/**
 * Returns the actor of a session. Link sessions of earlier builds lack `exceptRoles`, so they never get the rights of owners.
 */
export function actorOfSession({ person, operator, within, exceptRoles }: ConsoleSession): Actor {
  return { person, operator, within, exceptRoles: exceptRoles ?? (within === undefined ? [] : ['owner']) };
}

/**
 * Returns the subjects whose end also ends this session, narrowest first. For a session from a link, they are limited to its
 * organisation where possible.
 */
function everywhereSubjects(session: ConsoleSession): string[] {
  const person = actorName(session);
  const { within } = session;
  return within === undefined ? [person] : [memberSubject(within, person), linksSubject(within), person];
}

function linkEnded(id: string, endsMs: number, organisation: string | undefined) {
  const until = new Date(endsMs).toISOString();
  const holder = organisation === undefined ? undefined : linksSubject(organisation);
  return { kind: 'link', subject: sessionSubject(id), ...(holder && { holder }), until } as const;
}
