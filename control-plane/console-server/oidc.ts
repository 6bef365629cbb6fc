/** Sign-in through an identity provider, with PKCE, state and nonce. A sealed cookie lets any replica finish a sign-in. */
import { createHash } from 'node:crypto';
import type { Configuration } from 'openid-client';
import { z } from 'zod';
import { wallClockMs } from '../../shared/runtime/clock.ts';
import { Sealer } from '../../shared/runtime/sealed-text.ts';
import { CommandError } from '../core/command-error.ts';
import type { Identity } from './sessions.ts';

export interface OidcSettings {
  readonly issuer: string;
  readonly clientId: string;
  readonly clientSecret: string;
  /** Group whose members are operators, as it appears in the `groups` claim. */
  readonly operatorGroup?: string | undefined;
}

const transactionSchema = z.object({
  v: z.literal(1),
  state: z.string(),
  nonce: z.string(),
  verifier: z.string(),
  redirect: z.string(),
  endsMs: z.number(),
  invitation: z.string().optional(),
});

export const transactionSeconds = 600;
const providerTimeoutSeconds = 10;
const idDigits = 'abcdefghijklmnopqrstuvwxyz234567';
const idLength = 20;
const nameLengthMax = 200;
const groupsMax = 1000;

const claimsSchema = z.object({
  iss: z.string(),
  sub: z.string().min(1).max(1000),
  name: z.string().optional(),
  preferred_username: z.string().optional(),
  groups: z.array(z.unknown()).max(groupsMax).optional(),
});

interface Begun {
  /** Address to which the browser is sent. */
  readonly url: string;
  /** The sealed sign-in, which is set as a cookie. */
  readonly sealed: string;
}

interface CompletedSignIn {
  readonly identity: Identity;
  readonly invitation: string | undefined;
  readonly issuer: string;
  /** The provider's own id of the person. */
  readonly subject: string;
}

export class Oidc {
  readonly #settings: OidcSettings;
  readonly #sealer: Sealer;
  #configuration: Promise<Configuration> | undefined;

  constructor(settings: OidcSettings, operatorToken: string) {
    checkIssuer(settings.issuer);
    this.#settings = settings;
    this.#sealer = new Sealer(operatorToken, 'identity provider');
  }

  /** Begins a sign-in. Rejects with `CommandError` if the provider cannot be reached. */
  async begin(base: string, invitation: string | undefined): Promise<Begun> {
    const client = await import('openid-client');
    const configuration = await this.#discover();
    const redirect = `${base}/oidc/callback`;
    const [state, nonce, verifier] = [
      client.randomState(),
      client.randomNonce(),
      client.randomPKCECodeVerifier(),
    ];
    const url = client.buildAuthorizationUrl(configuration, {
      redirect_uri: redirect,
      scope: 'openid profile',
      state,
      nonce,
      code_challenge: await client.calculatePKCECodeChallenge(verifier),
      code_challenge_method: 'S256',
    });
    const endsMs = wallClockMs() + transactionSeconds * 1000;
    const sealed = this.#sealer.seal({ v: 1, state, nonce, verifier, redirect, endsMs, invitation });
    return { url: url.href, sealed };
  }

  /** Whether the cookie contains a sign-in that has not expired and has the state that the provider sent back. */
  isBegun(sealed: string, state: string): boolean {
    const transaction = this.#sealer.open(sealed, transactionSchema);
    return transaction !== undefined && transaction.endsMs > wallClockMs() && transaction.state === state;
  }

  /** Exchanges the code in a response (`?code=…&state=…`) for the identity. Rejects if any part does not match. */
  async finish(sealed: string, query: string): Promise<CompletedSignIn> {
    const transaction = this.#sealer.open(sealed, transactionSchema);
    if (!transaction || transaction.endsMs <= wallClockMs()) throw new Error('no sign-in is in progress');
    const client = await import('openid-client');
    const answer = new URL(`${transaction.redirect}?${query}`);
    const tokens = await client.authorizationCodeGrant(await this.#withNewKeys(), answer, {
      pkceCodeVerifier: transaction.verifier,
      expectedState: transaction.state,
      expectedNonce: transaction.nonce,
      idTokenExpected: true,
    });
    const claims = claimsSchema.parse(tokens.claims());
    const { iss: issuer, sub: subject } = claims;
    return { identity: this.#toIdentity(claims), invitation: transaction.invitation, issuer, subject };
  }

  #toIdentity({ iss, sub, name, preferred_username, groups = [] }: z.output<typeof claimsSchema>): Identity {
    const shown = (name ?? preferred_username)?.slice(0, nameLengthMax);
    const { operatorGroup } = this.#settings;
    if (operatorGroup !== undefined && groups.includes(operatorGroup))
      return { operator: personId(iss, sub), name: shown };
    return { person: personId(iss, sub), name: shown };
  }

  /** Reads the provider's configuration on first use, so that a replica can start without it. Retries after failures. */
  #discover(): Promise<Configuration> {
    this.#configuration ??= this.#read().catch((error: unknown) => {
      this.#configuration = undefined;
      throw new CommandError('LogUnavailable', 'the identity provider cannot be reached', {
        next: 'try again, or use a sign-in link',
        cause: error,
      });
    });
    return this.#configuration;
  }

  /** Returns a configuration that reads the signing keys again, because a provider may change its keys at any time. */
  async #withNewKeys(): Promise<Configuration> {
    const { allowInsecureRequests, Configuration, enableNonRepudiationChecks } = await import(
      'openid-client'
    );
    const { issuer, clientId, clientSecret } = this.#settings;
    const known = await this.#discover();
    const configuration = new Configuration(known.serverMetadata(), clientId, clientSecret);
    configuration.timeout = providerTimeoutSeconds;
    if (issuer.startsWith('http:')) allowInsecureRequests(configuration);
    enableNonRepudiationChecks(configuration);
    return configuration;
  }

  async #read(): Promise<Configuration> {
    const { allowInsecureRequests, discovery } = await import('openid-client');
    const { issuer, clientId, clientSecret } = this.#settings;
    // Plain HTTP is accepted only on loopback; see `checkIssuer`.
    const execute = issuer.startsWith('http:') ? [allowInsecureRequests] : [];
    const options = { execute, timeout: providerTimeoutSeconds };
    return discovery(new URL(issuer), clientId, clientSecret, undefined, options);
  }
}

/** Derives the id of a person. It is opaque because the log keeps it, so it must not contain a name or an email address. */
function personId(issuer: string, subject: string): string {
  const digest = createHash('sha256').update(`${issuer}\n${subject}`).digest();
  const digits = [...digest.subarray(0, idLength)].map((byte) => idDigits[byte % idDigits.length] ?? '');
  return `p-${digits.join('')}`;
}

/** Throws if the address cannot be an issuer. Plain HTTP is refused, because tokens sent over it could come from anyone. */
function checkIssuer(issuer: string): void {
  const { protocol = '', hostname = '' } = URL.canParse(issuer) ? new URL(issuer) : {};
  const isLoopback = ['localhost', '127.0.0.1', '[::1]'].includes(hostname);
  if (protocol === 'https:' || (protocol === 'http:' && isLoopback)) return;
  throw new Error('--oidc-issuer must be an address that begins with https://');
}
