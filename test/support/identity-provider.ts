/**
 * A real identity provider in this process, with accounts without passwords, and a client that walks through its pages as a
 * browser would.
 */
import { generateKeyPairSync, randomUUID } from 'node:crypto';
import { createServer, type RequestListener, type Server } from 'node:http';
import { urlOf } from './listen.ts';

/** Types of the part of the provider library that is used here, because the library has none of its own. */
interface Library {
  readonly default: new (issuer: string, configuration: object) => { callback(): RequestListener };
}
interface Context {
  readonly oidc: {
    readonly provider: {
      readonly Grant: new (of: {
        readonly clientId: string;
        readonly accountId: string;
      }) => {
        addOIDCScope(scope: string): void;
        save(): Promise<string>;
      };
    };
    readonly client: { readonly clientId: string };
    readonly session: { readonly accountId: string };
  };
}

const client = { id: 'headgate-console', secret: 'secret-of-the-client' } as const;

export class IdentityProvider {
  readonly issuer: string;
  readonly client = client;
  readonly #server: Server;
  #tokenRequests = 0;
  #signing = newKey();
  /** Keys that the provider publishes instead of its signing key. */
  published: readonly object[] | undefined;

  private constructor(server: Server, issuer: string) {
    this.#server = server;
    this.issuer = issuer;
    server.on('request', ({ url = '' }) => {
      if (url.startsWith('/token')) this.#tokenRequests++;
    });
  }

  get tokenRequests(): number {
    return this.#tokenRequests;
  }

  /** Starts the provider. `groups` lists the groups of each account; other accounts have none. */
  static async start(
    redirects: () => readonly string[],
    groups: Readonly<Record<string, readonly string[]>> = {},
  ): Promise<IdentityProvider> {
    const library = (await import('oidc-provider' as string)) as Library;
    let handler: RequestListener | undefined;
    let handled: object | undefined;
    const server = createServer((request, response) => {
      if (request.url === '/jwks' && provider.published !== undefined) {
        response.setHeader('content-type', 'application/json');
        response.end(JSON.stringify({ keys: provider.published }));
        return;
      }
      if (handled !== provider.#signing) {
        handled = provider.#signing;
        const keys = { jwks: { keys: [handled] } };
        handler = new library.default(issuer, {
          ...configurationOf(redirects(), groups),
          ...keys,
        }).callback();
      }
      handler?.(request, response);
    });
    const issuer = await urlOf(server);
    const provider = new IdentityProvider(server, issuer);
    return provider;
  }

  /** Makes the provider sign with a new key, which it also publishes. */
  rotateKey(): void {
    this.#signing = newKey();
  }

  /** Signs an account in on the provider's pages. Resolves with the address to which the provider redirects the browser. */
  async signIn(url: string, account: string): Promise<string> {
    const cookies = new Map<string, string>();
    let next: { url: string; body?: URLSearchParams } = { url };
    for (let step = 0; step < 10; step++) {
      const answer = await fetch(next.url, {
        redirect: 'manual',
        headers: { cookie: [...cookies].map((pair) => pair.join('=')).join('; ') },
        ...(next.body && { method: 'POST', body: next.body }),
      });
      for (const line of answer.headers.getSetCookie()) {
        const [name = '', value = ''] = (line.split(';', 1)[0] ?? '').split(/=(.*)/s);
        cookies.set(name, value);
      }
      await answer.text();
      const location = answer.headers.get('location');
      if (location === null)
        next = {
          url: next.url,
          body: new URLSearchParams({ prompt: 'login', login: account, password: 'x' }),
        };
      else {
        next = { url: new URL(location, next.url).href };
        if (!next.url.startsWith(this.issuer)) return next.url;
      }
    }
    throw new Error('the provider did not come to an end');
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}

function newKey(): object {
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  return { ...privateKey.export({ format: 'jwk' }), kid: randomUUID(), use: 'sig', alg: 'RS256' };
}

/** Creates a public key whose private key nobody uses to sign. `kid` may repeat the id of another key. */
export function strangeKey(kid: string = randomUUID()): object {
  const { publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  return { ...publicKey.export({ format: 'jwk' }), kid, use: 'sig', alg: 'RS256' };
}

function configurationOf(
  redirects: readonly string[],
  groups: Readonly<Record<string, readonly string[]>>,
): object {
  return {
    clients: [
      {
        client_id: client.id,
        client_secret: client.secret,
        redirect_uris: redirects,
        response_types: ['code'],
        grant_types: ['authorization_code'],
      },
    ],
    claims: { openid: ['sub'], profile: ['name', 'groups'] },
    conformIdTokenClaims: false,
    cookies: { keys: ['key-of-the-cookies'] },
    findAccount: (_context: unknown, id: string) => ({
      accountId: id,
      claims: () => ({ sub: id, name: `${id} of the provider`, groups: groups[id] ?? [] }),
    }),
    // Grants consent without asking.
    loadExistingGrant: async ({ oidc }: Context) => {
      const grant = new oidc.provider.Grant({
        clientId: oidc.client.clientId,
        accountId: oidc.session.accountId,
      });
      grant.addOIDCScope('openid profile');
      await grant.save();
      return grant;
    },
  };
}
