/** Single-use links to the console. No server or proxy sees the ticket, because it is in the URL fragment. */
import { randomBytes } from 'node:crypto';
import { z } from 'zod';
import { roleSchema } from '../../schemas/names.ts';
import { personSchema } from '../../schemas/shapes.ts';
import { wallClockMs } from '../../shared/runtime/clock.ts';
import { Sealer } from '../../shared/runtime/sealed-text.ts';

const linkSchema = z.object({
  v: z.literal(1),
  log: z.string(),
  /** Id of the link: 256 random bits in base64url. */
  id: z.string().length(43),
  endsMs: z.number(),
});
type Link = z.output<typeof linkSchema>;

const ticketSchema = linkSchema.extend({
  /** Id of the person to sign in. Absent for an operator. */
  person: personSchema.optional(),
  /** The only organisation in which the session may act. Absent if an operator made the link. */
  within: z.string().optional(),
  /** Roles with which the link cannot be used, because its creator could not have granted them. */
  exceptRoles: z.array(roleSchema),
});
export type Ticket = z.output<typeof ticketSchema>;

const invitationSchema = linkSchema.extend({
  organisation: z.string(),
  role: roleSchema,
  /** Member who invites, whose rights must still hold when the invitation is accepted. Absent if an operator invites. */
  by: personSchema.optional(),
});
type Invitation = z.output<typeof invitationSchema>;

export interface SignInLink {
  readonly url: string;
  /** Time at which the link expires, in RFC 3339 format. */
  readonly expiresAt: string;
}

export type LinkRequest = Pick<Ticket, 'person' | 'within' | 'exceptRoles'> & { readonly seconds: number };

/** Prefix of sealed invitations, by which the sign-in page distinguishes them from sign-in links. */
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

  /** Sets the console's address, once it is known. */
  set base(url: string) {
    this.#base = url;
  }

  make({ person, within, exceptRoles, seconds }: LinkRequest): SignInLink {
    return this.#made(seconds, (link) => this.#sealer.seal({ ...link, person, within, exceptRoles }));
  }

  /** Opens a sign-in link. Returns undefined if it is invalid, expired or from another log. Ignores earlier uses. */
  open(text: string): Ticket | undefined {
    return this.#valid(this.#sealer.open(text, ticketSchema));
  }

  /** Creates an invitation: a single-use link that makes whoever signs in with it a member. */
  invite({
    organisation,
    role,
    by,
    seconds,
  }: Pick<Invitation, 'organisation' | 'role' | 'by'> & { readonly seconds: number }): SignInLink {
    const sealed = (link: Link) => this.#invitations.seal({ ...link, organisation, role, by });
    return this.#made(seconds, (link) => invitationMark + sealed(link));
  }

  openInvitation(text: string): Invitation | undefined {
    return this.#valid(this.#invitations.open(text, invitationSchema));
  }

  #made(seconds: number, sealed: (link: Link) => string): SignInLink {
    const endsMs = wallClockMs() + seconds * 1000;
    const id = randomBytes(32).toString('base64url');
    return {
      url: `${this.#base ?? ''}/sign-in#${sealed({ v: 1, log: this.#logId() ?? '', id, endsMs })}`,
      expiresAt: new Date(endsMs).toISOString(),
    };
  }

  #valid<Opened extends Link>(link: Opened | undefined): Opened | undefined {
    return link && link.endsMs > wallClockMs() && link.log === this.#logId() ? link : undefined;
  }
}
