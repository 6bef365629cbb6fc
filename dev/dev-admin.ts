/** The calls that `headgate dev` makes to its own control plane, on top of the typed admin client. */
import { AdminClient, type Method } from '../admin-client/admin-client.ts';
import type { AnswerAt } from '../admin-client/answers.ts';
import type { AdminResponse, LiveNodeResource, Organisation, Stack } from '../schemas/admin.ts';
import type { Fleet } from '../schemas/fleet.ts';

/** A key or a token, with the value that is returned once. */
export interface DevSecret {
  readonly id: string;
  readonly value: string;
}

/** Longer than the control plane holds a wait for confirmations. */
const timeoutMs = 70_000;

export class DevAdmin extends AdminClient {
  /** Calls are not retried: a failure ends the start. */
  constructor(admin: string, token: string) {
    super({ admin, token }, { attemptsMax: 1, timeoutMs });
  }

  /** One call of the admin API, typed by its method and path. */
  call<M extends Method, Path extends string>(
    method: M,
    path: Path,
    body?: unknown,
  ): Promise<AnswerAt<M, Path>> {
    const answer: Promise<unknown> = method === 'GET' ? this.get(path) : this.write(method, path, body);
    return answer as Promise<AnswerAt<M, Path>>;
  }

  exportFleet(): Promise<Fleet> {
    return this.get('/fleet');
  }

  apply(fleet: Fleet): Promise<AdminResponse<'POST /fleet/apply'>> {
    return this.write('POST', '/fleet/apply', { fleet });
  }

  async organisations(): Promise<readonly Organisation[]> {
    return (await this.get('/organisations')).items;
  }

  async stacks(): Promise<readonly Stack[]> {
    return (await this.get('/stacks')).items;
  }

  async nodes(): Promise<readonly LiveNodeResource[]> {
    return (await this.get('/nodes')).items;
  }

  async activeNodeTokens(node: string): Promise<readonly string[]> {
    return activeIds((await this.get(`/nodes/${node}/tokens`)).items);
  }

  async createNodeToken(node: string): Promise<DevSecret> {
    return withValue(await this.write('POST', `/nodes/${node}/tokens`));
  }

  async activeKeys(): Promise<readonly string[]> {
    return activeIds((await this.get('/keys')).items);
  }

  async createKey(organisation: string, name: string, expires = 'never'): Promise<DevSecret> {
    return withValue(await this.write('POST', '/keys', { organisation, name, expires }));
  }

  consoleLink(): Promise<AdminResponse<'POST /console/links'>> {
    return this.write('POST', '/console/links');
  }

  async position(): Promise<number> {
    return (await this.get('/status')).position;
  }

  /** Resolves once every gateway has the position in force, or after the time-out. */
  confirmed(
    position: number,
    timeoutSeconds: number,
  ): Promise<AdminResponse<'GET /confirmations/:position'>> {
    return this.get(`/confirmations/${position}`, { timeoutSeconds });
  }
}

function activeIds(items: readonly { readonly id: string; readonly state: string }[]): string[] {
  return items.filter(({ state }) => state === 'active').map(({ id }) => id);
}

function withValue({ id, value }: { readonly id: string; readonly value?: string | undefined }): DevSecret {
  if (value === undefined) throw new Error(`the control plane returned no value for ${id}`);
  return { id, value };
}
