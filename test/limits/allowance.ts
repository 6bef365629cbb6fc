/**
 * Checks of a monthly token allowance that real gateway processes share. The tests for Kafka and for the embedded log both
 * use them.
 */
import { cpSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import {
  completion,
  type GatewayProcess,
  organisation,
  type Plane,
  ProcessFleet,
  smallFleet,
} from '../support/process-fleet.ts';
import { until } from '../support/until.ts';

const allowance = 3000;
/**
 * Largest number of tokens by which the gateways may exceed the allowance: requests in flight at the limit, and half a second
 * of other gateways' admissions (docs/limits.md).
 */
const aboveMax = 600;

/** Two gateways that share an allowance, and a client that counts the tokens of each completion itself. */
export class AllowanceFleet extends ProcessFleet {
  plane!: Plane;
  readonly gateways = new Map<string, GatewayProcess>();
  key = '';
  /** Number of tokens in all completed responses. */
  tokens = 0;
  /** Sum of the manual adjustments, in tokens. */
  adjusted = 0;

  static async startOn(logUrl?: string): Promise<AllowanceFleet> {
    const fleet = new AllowanceFleet({ logUrl });
    const tiers = [{ id: 'Wide', models: '*' as const, monthlyTokens: allowance }];
    const document = (url: string) => ({ ...smallFleet(url), tiers });
    const { plane, key } = await fleet.stand({ document, gateways: 0 });
    Object.assign(fleet, { plane, key });
    for (const name of ['gateway-1', 'gateway-2']) await fleet.gateway(name);
    return fleet;
  }

  async gateway(name: string): Promise<void> {
    const flags = ['--control-plane', this.plane.ready.admin];
    this.gateways.set(name, await this.startGateway(name, { flags }));
  }

  /** Runs the CLI and returns its output, parsed as JSON. */
  async json<Answer>(...args: string[]): Promise<Answer> {
    const run = await this.cli([...args, '-o', 'json'], { HEADGATE_ADMIN: this.plane.ready.admin });
    if (run.code !== 0) throw new Error(`${args.join(' ')}: ${run.stderr}`);
    return JSON.parse(run.stdout) as Answer;
  }

  limits() {
    return this.admin(this.plane).call('GET', `/organisations/${organisation}/limits`);
  }

  usage() {
    return this.admin(this.plane).call('GET', `/usage?organisation=${organisation}`);
  }

  /** Sends one completion to the named gateway and returns its HTTP status. */
  async complete(name: string): Promise<number> {
    const { api } = this.gateways.get(name)?.ready ?? { api: '' };
    const messages = [{ role: 'user', content: 'hello' }];
    const response = await completion(api, this.key, { max_tokens: 5, messages });
    const body = (await response.json()) as { usage?: { total_tokens: number } };
    if (response.status === 200) this.tokens += body.usage?.total_tokens ?? 0;
    return response.status;
  }

  /** Sends completions to the gateways in turn until every gateway refuses one. */
  async useUp(): Promise<void> {
    const names = [...this.gateways.keys()];
    let refused = 0;
    for (let n = 0; n < 1000 && refused < names.length; n++) {
      refused = 0;
      for (const name of names) if ((await this.complete(name)) === 409) refused++;
    }
    expect(refused).toBe(names.length);
  }

  async end(name: string): Promise<void> {
    await this.gateways.get(name)?.end('SIGKILL');
  }

  folder(name: string): string {
    return join(this.dir, name);
  }

  async adjust(tokens: number): Promise<void> {
    this.adjusted += tokens;
    const words = ['usage', 'adjust', '--org', organisation, '--why', 'for the test'];
    await this.json(...words, '--tokens', String(tokens));
  }

  /** Returns the organisation's total tokens according to `usage show`. */
  async billed(): Promise<number> {
    return (await this.usage()).totalTokens;
  }

  /** Waits until the client's own count, `usage show` and `limits show` agree. */
  async sumsAgree(): Promise<void> {
    await until(async () => {
      return (await this.billed()) === this.tokens && (await this.limits()).tokens.used === this.tokens;
    }, 30_000);
  }
}

/** Checks that the gateways refuse requests once the allowance is used up, also after a crash, until a manual credit. */
export async function allowanceRunsOut(fleet: AllowanceFleet): Promise<void> {
  await fleet.useUp();
  expect(fleet.tokens).toBeLessThan(allowance + aboveMax);
  await fleet.sumsAgree();
  expect((await fleet.limits()).gateways.map(({ name }) => name)).toEqual(['gateway-1', 'gateway-2']);

  // After kill -9 and a restart, the gateway has forgotten no usage and counts none twice.
  await fleet.end('gateway-1');
  await fleet.gateway('gateway-1');
  expect([await fleet.complete('gateway-1'), await fleet.complete('gateway-2')]).toEqual([409, 409]);
  await fleet.sumsAgree();

  // After a manual credit both gateways serve again. The completed usage is still reported without the credit.
  await fleet.json('usage', 'adjust', '--org', organisation, '--tokens', '-1000', '--why', 'failed batch');
  await until(
    async () => (await fleet.complete('gateway-1')) === 200 && (await fleet.complete('gateway-2')) === 200,
  );
  const shown = await fleet.json<object>('usage', 'show', '--org', organisation);
  expect(shown).toMatchObject({ adjustedTokens: -1000 });
  await fleet.json('usage', 'adjust', '--org', organisation, '--tokens', '1000', '--why', 'back');
  await until(
    async () => (await fleet.complete('gateway-1')) === 409 && (await fleet.complete('gateway-2')) === 409,
  );
  await fleet.sumsAgree();
}

/** Checks that four gateways share the allowance. Two of them must read the usage from before they started. */
export async function fourShareTheRest(fleet: AllowanceFleet): Promise<void> {
  await fleet.useUp();
  const before = fleet.tokens + fleet.adjusted;
  await Promise.all(['gateway-4', 'gateway-5'].map((name) => fleet.gateway(name)));
  expect([await fleet.complete('gateway-4'), await fleet.complete('gateway-5')]).toEqual([409, 409]);
  await fleet.adjust(-1000);
  await until(async () => (await fleet.complete('gateway-4')) === 200);
  await fleet.useUp();
  expect(fleet.tokens + fleet.adjusted).toBeLessThan(before + aboveMax);
  const used = fleet.tokens + fleet.adjusted;
  await until(
    async () => (await fleet.limits()).tokens.used === used && (await fleet.billed()) === fleet.tokens,
    30_000,
  );
}

/** Checks that restoring an older copy of a gateway's folder neither counts usage twice nor forgets published usage. */
export async function foldersAreBroughtBack(fleet: AllowanceFleet): Promise<void> {
  await fleet.end('gateway-1');
  const folder = fleet.folder('gateway-1');
  cpSync(folder, `${folder}-backup`, { recursive: true });
  await fleet.gateway('gateway-1');
  await fleet.adjust(-1000);
  await until(async () => (await fleet.complete('gateway-1')) === 200);
  await fleet.useUp();
  const used = fleet.tokens + fleet.adjusted;
  await until(
    async () => (await fleet.limits()).tokens.used === used && (await fleet.billed()) === fleet.tokens,
  );
  await fleet.end('gateway-1');
  rmSync(folder, { recursive: true });
  renameSync(`${folder}-backup`, folder);
  await fleet.gateway('gateway-1');
  expect([await fleet.complete('gateway-1'), await fleet.complete('gateway-2')]).toEqual([409, 409]);
  expect((await fleet.limits()).tokens.used).toBe(used);
  await fleet.adjust(-1000);
  await until(async () => (await fleet.complete('gateway-1')) === 200);
  await fleet.useUp();
  await until(async () => (await fleet.limits()).tokens.used === fleet.tokens + fleet.adjusted, 30_000);
  await until(async () => (await fleet.billed()) === fleet.tokens, 30_000);
}

/** Checks that losing or copying a gateway's folder neither counts usage twice nor forgets published usage. */
export async function foldersAreLostAndCopied(fleet: AllowanceFleet): Promise<void> {
  const before = fleet.tokens;
  await fleet.end('gateway-2');
  rmSync(fleet.folder('gateway-2'), { recursive: true });
  await fleet.gateway('gateway-2');
  expect(await fleet.complete('gateway-2')).toBe(409);
  expect((await fleet.limits()).tokens.used).toBe(before);

  // Replaces the second gateway's folder with a copy of the first gateway's.
  await fleet.end('gateway-2');
  await fleet.end('gateway-1');
  renameSync(fleet.folder('gateway-2'), `${fleet.folder('gateway-2')}-old`);
  cpSync(fleet.folder('gateway-1'), fleet.folder('gateway-2'), { recursive: true });
  await fleet.gateway('gateway-1');
  await fleet.gateway('gateway-2');
  await fleet.adjust(-1000);
  await until(async () => (await fleet.complete('gateway-1')) === 200);
  await fleet.useUp();
  // The control plane learns of the last completion a moment later.
  await until(async () => (await fleet.limits()).tokens.used === fleet.tokens + fleet.adjusted, 30_000);
}
