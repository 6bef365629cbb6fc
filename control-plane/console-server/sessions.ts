/**
 * Sessions of the console. All of a session is sealed in one cookie, so every replica knows it and none keeps it; what ends
 * one early is an event of the log. Roles are not in it: they are asked of the state at every request, and a link's session has none
 * that its link could not have given.
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

/** Of rights that a provider gave and may have taken away: who still has them is signed in again by it. */
const providerRightsMs = 3600_000;
const idleMs = 3600_000;
/** A cookie is sealed again, with a later idle end, at most this often. */
const resealMs = 5 * 60_000;

const sessionSchema = z
  .object({
    v: z.literal(1),
    log: z.string(),
    id: z.string().length(43),
    kind: z.enum(['operator', 'member']),
    person: personSchema.optional(),
    /** Which of several operators, where the identity provider says so; absent for the holder of the token. */
    operator: personSchema.optional(),
    within: z.string().optional(),
    /** As in the link's ticket. */
    exceptRoles: z.array(roleSchema).optional(),
    /** For the page alone; the log has no names of people. */
    name: z.string().max(200).optional(),
    /** Position of the state when it began, so that no clocks of two replicas are compared. */
    position: z.int().min(0),
    endsMs: z.number(),
    sealedMs: z.number(),
  })
  .refine(({ kind, person }) => (kind === 'operator') === (person === undefined))
  .refine(({ kind, operator }) => kind === 'operator' || operator === undefined);
export type ConsoleSession = z.output<typeof sessionSchema>;

/** Who signs in. */
export interface Identity {
  /** Absent: an operator. */
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
  /** Wall clock, ms since 1970. */
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

  /** The session of a cookie's value, or undefined where it is none that counts now. */
  async open(text: string): Promise<ConsoleSession | undefined> {
    const session = this.#sealer.open(text, sessionSchema);
    if (!session) return undefined;
    await this.#options.ended.ready();
    return this.counts(session) ? session : undefined;
  }

  /** Asked again and again for a stream that stays open. */
  counts(session: ConsoleSession): boolean {
    const { ended, state } = this.#options;
    const nowMs = this.#now();
    if (session.log !== (state().log ?? '') || session.endsMs <= nowMs) return false;
    if (session.sealedMs + idleMs <= nowMs || ended.hasEnded('session', sessionSubject(session.id)))
      return false;
    if (everywhereSubjects(session).some((subject) => ended.hasPersonEnded(subject, session.position)))
      return false;
    // What made the link lawful must hold as long as its session.
    return session.within === undefined || membershipsOf(state().db, actorOfSession(session)).length > 0;
  }

  needsSealing({ sealedMs }: ConsoleSession): boolean {
    return this.#now() - sealedMs >= resealMs;
  }

  /**
   * Writes that a session is over, or all of its person; those of a link end within its organisation alone. Calls at once are
   * one, and a session that is over writes nothing, so that no cookie fills the log. Rejects with CommandError where the log
   * does not take it.
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

  /**
   * Uses up a sign-in link. Of several uses at once, on any replicas, the log lets one through. `check` throws where the link
   * does not hold in the state at the head of the log.
   */
  async useLink({ id, endsMs, person, within }: Ticket, check: () => void): Promise<void> {
    const { ended } = this.#options;
    const data = linkEnded(id, endsMs, within);
    await ended.ready();
    await this.#write({ person, within }, actorName({ person }), () => {
      check();
      if (ended.hasEnded('link', data.subject))
        throw new CommandError('Unauthorized', 'this sign-in link was used before', {
          next: 'ask for another; the operator runs `headgate console open`',
        });
      return [{ type: 'session.ended', data }];
    });
  }

  /**
   * Makes the person a member, by an invitation that is used up with it. Who is one already stays as they are. Rejects with
   * CommandError where it does not hold any more.
   */
  async acceptInvitation(
    links: SignInLinks,
    text: string,
    person: string,
    { snapshot: { db } }: Pick<AdminContext, 'snapshot'>,
  ): Promise<void> {
    const { ended } = this.#options;
    const invitation = links.openInvitation(text);
    if (!invitation) throw new CommandError('Unauthorized', 'this invitation is not valid any more');
    const { organisation, role, by, id, endsMs } = invitation;
    // Of an operator's invitations there are as many as the operator likes.
    const used = linkEnded(id, endsMs, by === undefined ? undefined : organisation);
    const joined = { type: 'member.set', data: { organisation, person, role } } as const;
    await ended.ready();
    await this.#write({ person, within: organisation }, actorName({ person: by }), () => {
      if (findMember(db, organisation, person) !== undefined) return [];
      if (ended.hasEnded('link', used.subject))
        throw new CommandError('Unauthorized', 'this invitation was used before');
      const exists = findOrganisation(db, organisation) !== undefined;
      if (!exists) throw new CommandError('NotFound', 'the organisation of this invitation is gone');
      authorise(db, { person: by }, managingRoles, () => organisation);
      atOnce(checkOwners(db, { person: by }, [joined]));
      return [{ type: 'session.ended', data: used }, joined];
    });
  }

  /** In the share of who signs in or out, whatever name the commit has. */
  async #write(of: Actor, by: string, events: () => readonly KnownEvent[]): Promise<void> {
    await this.#options.writer.writeOfSession(of, { id: randomUUID(), by }, events);
  }

  #now(): number {
    return (this.#options.now ?? wallClockMs)();
  }
}

/** A session of an earlier build does not say what its link covers: any but an owner's rights. */
export function actorOfSession({ person, operator, within, exceptRoles }: ConsoleSession): Actor {
  return { person, operator, within, exceptRoles: exceptRoles ?? (within === undefined ? [] : ['owner']) };
}

/**
 * What ends a session with all of its person, the narrowest first. A link's owner may act for the person within one
 * organisation only; all sessions of that organisation's links end with the organisation.
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
