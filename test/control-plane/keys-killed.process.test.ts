// Tests that a command that creates many keys takes effect entirely or not at all, even if its control plane is killed
// meanwhile. Sends SIGKILL at a different moment in each round, restarts on the same folder, and repeats the command.
import { setTimeout as passed } from 'node:timers/promises';
import { afterAll, expect, test } from 'vitest';
import { askAdmin } from '../support/ask-admin.ts';
import { type Plane, ProcessFleet } from '../support/process-fleet.ts';

const rounds = 7;
const keysAtOnce = 1000;
const fleet = new ProcessFleet({ timeoutMs: 120_000 });
afterAll(() => fleet.close());

interface CreatedKeys {
  readonly items: readonly { readonly id: string; readonly value?: string }[];
  readonly repeated?: true;
}

async function createMany({ ready }: Plane, round: number): Promise<CreatedKeys | undefined> {
  const items = Array.from({ length: keysAtOnce }, (_, n) => ({
    ...{ organisation: 'acme', name: `key ${round}.${n}`, expires: '90d' },
  }));
  const sent = askAdmin(ready.admin, '/keys', { id: `many-keys-${round}`, body: { items } });
  const answer = await sent.catch(() => undefined);
  if (answer === undefined) return undefined;
  const made = await answer.json().catch(() => undefined);
  if (made !== undefined) expect([answer.status, made]).toMatchObject([200, {}]);
  return made as CreatedKeys | undefined;
}

const keyCount = async (plane: Plane): Promise<number> =>
  Number((await fleet.admin(plane).run('key.list', { limit: 1 })).total);

test('a killed command created either all its keys or none', async () => {
  let plane = await fleet.startPlane();
  await fleet.admin(plane).run('organisation.create', { id: 'acme', name: 'Acme' });
  let repeats = 0;
  for (let round = 0; round < rounds; round++) {
    const sent = createMany(plane, round);
    // The delays reach from before the control plane reads the command to after its response, even on a slow machine.
    await passed(20 * 2 ** round);
    await plane.end('SIGKILL');
    const first = await sent;
    plane = await fleet.startPlane();
    const there = (await keyCount(plane)) - round * keysAtOnce;
    expect([0, keysAtOnce]).toContain(there);
    if (first !== undefined) expect(there).toBe(keysAtOnce);
    const again = await createMany(plane, round);
    expect([again?.items.length, again?.repeated]).toEqual([keysAtOnce, there > 0 ? true : undefined]);
    expect(await keyCount(plane)).toBe((round + 1) * keysAtOnce);
    // Keys named in the response to a repeated command must exist too.
    const id = again?.items.at(-1)?.id ?? '';
    expect(await fleet.admin(plane).run('key.get', { id })).toMatchObject({ name: `key ${round}.999` });
    if (again?.repeated) repeats++;
  }
  console.log(`${repeats} of ${rounds} commands had taken effect before the end`);
}, 600_000);
