/** The few calls of the admin API that `headgate dev` makes of its own control plane. */
import { randomUUID } from 'node:crypto';
import type { Fleet } from '../schemas/fleet.ts';

export interface DevOrganisation {
  readonly id: string;
  readonly tier: string | null;
}
export interface DevStack {
  readonly id: string;
  readonly organisation: string;
  readonly surface: string;
  readonly models: readonly string[];
}
export interface DevNode {
  readonly id: string;
  readonly url: string;
  readonly up: boolean;
  readonly agent: boolean;
  readonly place: { readonly kind: string; readonly id?: string };
}
/** A key or a token, with the value that is shown once. */
export interface DevSecret {
  readonly id: string;
  readonly value: string;
}
interface Listed<Thing> {
  readonly items: readonly Thing[];
}

export class DevAdmin {
  readonly #base: string;
  readonly #token: string;

  constructor(base: string, token: string) {
    this.#base = `${base}/admin/v1`;
    this.#token = token;
  }

  exportFleet(): Promise<Fleet> {
    return this.call<Fleet>('GET', '/fleet');
  }

  apply(fleet: Fleet): Promise<{ position: number }> {
    return this.call('POST', '/fleet/apply', { fleet });
  }

  async organisations(): Promise<readonly DevOrganisation[]> {
    return (await this.call<Listed<DevOrganisation>>('GET', '/organisations')).items;
  }

  async stacks(): Promise<readonly DevStack[]> {
    return (await this.call<Listed<DevStack>>('GET', '/stacks')).items;
  }

  async nodes(): Promise<readonly DevNode[]> {
    return (await this.call<Listed<DevNode>>('GET', '/nodes')).items;
  }

  async activeNodeTokens(node: string): Promise<readonly string[]> {
    const { items } = await this.call<Listed<{ id: string; state: string }>>('GET', `/nodes/${node}/tokens`);
    return items.filter(({ state }) => state === 'active').map(({ id }) => id);
  }

  createNodeToken(node: string): Promise<DevSecret> {
    return this.call<DevSecret>('POST', `/nodes/${node}/tokens`);
  }

  async activeKeys(): Promise<readonly string[]> {
    const { items } = await this.call<Listed<{ id: string; state: string }>>('GET', '/keys');
    return items.filter(({ state }) => state === 'active').map(({ id }) => id);
  }

  createKey(organisation: string, name: string): Promise<DevSecret> {
    return this.call<DevSecret>('POST', '/keys', { organisation, name, expires: 'never' });
  }

  async position(): Promise<number> {
    return (await this.call<{ position: number }>('GET', '/status')).position;
  }

  /** Resolves once every gateway has the position in force, or after the time-out. */
  confirmed(position: number, timeoutSeconds: number): Promise<{ complete: boolean }> {
    return this.call('GET', `/confirmations/${position}?timeoutSeconds=${timeoutSeconds}`);
  }

  /** One call of the admin API; throws an Error that says what was refused. */
  async call<Answer>(method: string, path: string, body?: unknown): Promise<Answer> {
    const response = await fetch(this.#base + path, {
      method,
      headers: {
        authorization: `Bearer ${this.#token}`,
        'content-type': 'application/json',
        'idempotency-key': randomUUID(),
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(70_000),
    });
    const answer = (await response.json()) as Answer & { error?: { message: string } };
    if (!response.ok) throw new Error(`${method} ${path}: ${answer.error?.message ?? response.status}`);
    return answer;
  }
}
