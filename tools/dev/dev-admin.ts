/** Calls that `headgate dev` makes to the control plane that it has started. They use the typed admin client. */
import { AdminClient } from '../../cli/admin-client/admin-client.ts';
import type { AnswerAt } from '../../cli/admin-client/answers.ts';
import type { LiveNodeResource, OperationAnswer, Organisation, Stack } from '../../schemas/admin/admin.ts';
import type { AdminMethod } from '../../schemas/admin/admin-routes.ts';
import type { Fleet } from '../../schemas/events/fleet.ts';
import type { ExpiryChoice } from '../../schemas/names.ts';

/** Key or token with its value, which the API returns only once. */
export interface DevSecret {
  readonly id: string;
  readonly value: string;
}

/** Timeout of a call in ms. It is longer than any wait for confirmations that a caller of this client asks for. */
const timeoutMs = 70_000;

export class DevAdmin extends AdminClient {
  /** Creates a client that does not retry, because any failure ends the start. */
  constructor(admin: string, token: string) {
    super({ admin, token }, { attemptsMax: 1, timeoutMs });
  }

  /** Sends a request whose types follow from its method and path. Tests use it for requests that no typed call would send. */
  call<M extends AdminMethod, Path extends string>(
    method: M,
    path: Path,
    body?: unknown,
  ): Promise<AnswerAt<M, Path>> {
    const answer: Promise<unknown> = this.text(method, path, body);
    return answer as Promise<AnswerAt<M, Path>>;
  }

  exportFleet(): Promise<Fleet> {
    return this.run('fleet.get');
  }

  apply(fleet: Fleet): Promise<OperationAnswer<'fleet.apply'>> {
    return this.run('fleet.apply', { fleet });
  }

  /** Applies a fleet file without first asking gateways for the affected requests, because no gateway is running yet. */
  applyOwn(fleet: Fleet): Promise<OperationAnswer<'fleet.apply'>> {
    return this.call('POST', '/fleet/apply?force=true', { fleet });
  }

  async organisations(): Promise<readonly Organisation[]> {
    return await this.all('organisation.list');
  }

  async stacks(): Promise<readonly Stack[]> {
    return await this.all('stack.list');
  }

  async nodes(): Promise<readonly LiveNodeResource[]> {
    return await this.all('node.list');
  }

  async activeNodeTokens(node: string): Promise<readonly string[]> {
    return activeIds(await this.all('node-token.list', { id: node }));
  }

  async createNodeToken(node: string): Promise<DevSecret> {
    return withValue(await this.run('node-token.create', { id: node }));
  }

  async activeKeys(): Promise<readonly string[]> {
    return activeIds(await this.all('key.list'));
  }

  async createKey(organisation: string, name: string, expires: ExpiryChoice = 'never'): Promise<DevSecret> {
    return withValue(await this.run('key.create', { organisation, name, expires }));
  }

  consoleLink(): Promise<OperationAnswer<'console.link'>> {
    return this.run('console.link');
  }

  async position(): Promise<number> {
    return (await this.run('status.get')).position;
  }

  /** Resolves once every gateway has applied the position, or after the timeout. */
  confirmed(position: number, timeoutSeconds: number): Promise<OperationAnswer<'confirmations.get'>> {
    return this.run('confirmations.get', { position, timeoutSeconds });
  }
}

function activeIds(items: readonly { readonly id: string; readonly state: string }[]): string[] {
  return items.filter(({ state }) => state === 'active').map(({ id }) => id);
}

function withValue({ id, value }: { readonly id: string; readonly value?: string | undefined }): DevSecret {
  if (value === undefined) throw new Error(`the control plane returned no value for ${id}`);
  return { id, value };
}
