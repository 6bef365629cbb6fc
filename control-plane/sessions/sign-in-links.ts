/**
 * One-time links to the console. The link holds a sealed ticket in its fragment, which no server, proxy or log sees. Who
 * opens it first signs in: that use is an event of the log, so it counts on every replica.
 */
import { randomBytes } from 'node:crypto';
import { z } from 'zod';
import { roleSchema } from '../../schemas/names.ts';
import { personSchema } from '../../schemas/shapes.ts';
import { Sealer } from '../../shared/runtime/sealed-text.ts';

const ticketSchema = z.object({
  v: z.literal(1),
  log: z.string(),
  /** 256 random bits. */
  id: z.string().length(43),
  endsMs: z.number(),
  /** Absent: it signs in the operator. */
  person: personSchema.optional(),
  /** The only organisation that the session may act in; absent where the operator made the link. */
  within: z.string().optional(),
  /** Roles that a person may not have by the time the link is used, because who made it could not have given them. */
  exceptRoles: z.array(roleSchema),
});
export type Ticket = z.output<typeof ticketSchema>;

const invitationSchema = z.object({
  v: z.literal(1),
  log: z.string(),
  /** 256 random bits. */
  id: z.string().length(43),
  endsMs: z.number(),
  organisation: z.string(),
  role: roleSchema,
  /** The member who invites, whose rights must still hold when it is accepted; absent: the operator. */
  by: personSchema.optional(),
});
type Invitation = z.output<typeof invitationSchema>;

export interface SignInLink {
  readonly url: string;
  /** RFC 3339. */
  readonly expiresAt: string;
}

export type LinkRequest = Pick<Ticket, 'person' | 'within' | 'exceptRoles'> & { readonly seconds: number };

/** Before the sealed text of an invitation, by which the page distinguishes it from a sign-in link. */
const invitationMark = 'invitation.';

export class SignInLinks {
  readonly #sealer: Sealer;
  readonly #invitations: Sealer;
  readonly #logId: () => string | null;
  #base: string | undefined;

  constructor(operatorToken: string, logId: () => string | null) {
    this.#sealer = new Sealer(operatorToken, 'sign-in link');
    this.#invitations = new Sealer(operatorToken, 'invitation');
    this.#logId = logId;
  }

  /** The console's address, once it is known. */
  set base(url: string) {
    this.#base = url;
  }

  make({ person, within, exceptRoles, seconds }: LinkRequest): SignInLink {
    const endsMs = Date.now() + seconds * 1000;
    const id = randomBytes(32).toString('base64url');
    const ticket: Ticket = { v: 1, log: this.#logId() ?? '', id, endsMs, person, within, exceptRoles };
    return {
      url: `${this.#base ?? ''}/sign-in#${this.#sealer.seal(ticket)}`,
      expiresAt: new Date(endsMs).toISOString(),
    };
  }

  /** Undefined where the text is no link of this log that is still valid; its first use is checked elsewhere. */
  open(text: string): Ticket | undefined {
    const ticket = this.#sealer.open(text, ticketSchema);
    return ticket && ticket.endsMs > Date.now() && ticket.log === this.#logId() ? ticket : undefined;
  }

  /** A link that makes the person who signs in by it, once, a member. */
  invite({
    organisation,
    role,
    by,
    seconds,
  }: Pick<Invitation, 'organisation' | 'role' | 'by'> & { readonly seconds: number }): SignInLink {
    const endsMs = Date.now() + seconds * 1000;
    const id = randomBytes(32).toString('base64url');
    const invitation: Invitation = { v: 1, log: this.#logId() ?? '', id, endsMs, organisation, role, by };
    return {
      url: `${this.#base ?? ''}/sign-in#${invitationMark}${this.#invitations.seal(invitation)}`,
      expiresAt: new Date(endsMs).toISOString(),
    };
  }

  openInvitation(text: string): Invitation | undefined {
    const invitation = this.#invitations.open(text, invitationSchema);
    return invitation && invitation.endsMs > Date.now() && invitation.log === this.#logId()
      ? invitation
      : undefined;
  }
}
