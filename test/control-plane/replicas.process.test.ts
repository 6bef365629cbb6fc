// Tests that several replicas can safely share one embedded log, even if one is killed in the middle of its work. Sends 1 000
// commands that compete for the same stack ids and keys to three processes, and kills one of them with SIGKILL. A command
// whose response was lost is repeated at another process with its own Idempotency-Key, as the CLI does.
import { randomUUID } from 'node:crypto';
import { afterAll, expect, test } from 'vitest';
import { CommitReader } from '../../control-plane/state/commits.ts';
import { openLog } from '../../shared/log/open-log.ts';
import { type AdminAnswer, answerOfAdmin } from '../support/ask-admin.ts';
import { type Plane, ProcessFleet } from '../support/process-fleet.ts';

const commandsWanted = 1000;
const replicas = 3;

const replicasOf = new ProcessFleet();
afterAll(() => replicasOf.close());
const start = (index: number): Promise<Plane> => replicasOf.startPlane(`cp-${index}`);

test('the chain has an acknowledged command exactly once and a refused one never, and all snapshots are equal', async () => {
  const fleet = await Promise.all([0, 1, 2].map(start));
  const alive = new Set([0, 1, 2]);
  const at = (index: number): Plane => fleet[index] as Plane;
  await at(0).admin.call('POST', '/organisations', { id: 'acme', name: 'Acme' });

  const acknowledged = new Set<string>();
  const unchanged = new Set<string>();
  const refused = new Set<string>();
  const keys: string[] = [];

  /** Sends a command until it is answered. If a response is lost, repeats the command at another replica with the same id. */
  const decided = async (first: number, path: string, body: unknown = {}): Promise<AdminAnswer> => {
    const id = randomUUID();
    for (let attempt = 0; ; attempt++) {
      const candidates = [...alive];
      const index =
        attempt === 0 && alive.has(first) ? first : (candidates[attempt % candidates.length] as number);
      const answer = await answerOfAdmin(at(index).ready.admin, path, { id, body }).catch(() => undefined);
      if (!answer || answer.status === 503) {
        if (attempt > 20) throw new Error('no replica answers');
        continue;
      }
      if (answer.status !== 200) refused.add(id);
      else if (answer.body['unchanged'] === true) unchanged.add(id);
      else acknowledged.add(id);
      return answer;
    }
  };
  let sent = 0;
  const work = async (worker: number): Promise<void> => {
    while (sent < commandsWanted) {
      const n = sent++;
      if (n === Math.floor(commandsWanted / 2)) {
        alive.delete(2);
        await (fleet[2] as Plane).end('SIGKILL');
      }
      const first = worker % replicas;
      if (n % 4 === 0) {
        const answer = await decided(first, '/keys', {
          organisation: 'acme',
          name: `key ${n}`,
          expires: '30d',
        });
        if (typeof answer.body['id'] === 'string') keys.push(answer.body['id']);
      } else if (n % 4 === 1 && keys.length > 0)
        await decided(first, `/keys/${keys[n % keys.length]}/revoke`);
      else
        await decided(first, '/stacks', {
          organisation: 'acme',
          id: `stk-race-for-${Math.floor(n / 6)}`,
        });
    }
  };
  await Promise.all(Array.from({ length: 9 }, (_, worker) => work(worker)));

  const again = await start(2);
  const statuses = [];
  const head = Math.max(...(await Promise.all([0, 1].map((index) => at(index).admin.position()))));
  for (const { admin } of [at(0), at(1), again])
    statuses.push(await admin.call('GET', `/status?min=${head}&at=${head}`));
  expect(new Set(statuses.map((status) => JSON.stringify([status.position, status.digests]))).size).toBe(1);

  const log = await openLog(replicasOf.logUrl, { topic: 'headgate.control' });
  const seen = new Map<string, number>();
  const stacks = new Map<string, number>();
  for await (const batch of new CommitReader(log, null).upTo(head)) {
    for (const { commit } of batch) {
      seen.set(commit.id, (seen.get(commit.id) ?? 0) + 1);
      for (const { type, data } of commit.events) {
        const id = (data as { id?: string }).id ?? '';
        if (type === 'stack.created') stacks.set(id, (stacks.get(id) ?? 0) + 1);
      }
    }
  }
  await log.close();
  expect([...acknowledged].filter((id) => seen.get(id) !== 1)).toEqual([]);
  expect([...refused, ...unchanged].filter((id) => seen.has(id))).toEqual([]);
  expect([...stacks.values()].every((times) => times === 1)).toBe(true);
  expect(acknowledged.size + refused.size + unchanged.size).toBeGreaterThanOrEqual(commandsWanted);
  process.stdout.write(`${acknowledged.size} done, ${refused.size} refused, ${unchanged.size} unchanged\n`);
});
