/** Tests exporting usage over real HTTP from a real store. */
import type { AddressInfo } from 'node:net';
import Fastify from 'fastify';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { UsageRow } from '../../schemas/records/usage.ts';
import { memorySnapshot } from '../../shared/snapshot/open-snapshot.ts';
import { usageMac } from '../../test/support/usage-mac.ts';
import type { RequestQuery } from '../usage/request-table.ts';
import { openUsageStore } from '../usage/usage-store.ts';
import type { AdminContext } from './context.ts';
import { compilersFactory } from './http-app.ts';
import { addHandlers, refuseOthers } from './operations.ts';
import { usageHandlers } from './usage-routes.ts';

const incarnation = '0f8fad5b-d9cb-469f-a165-70867728950e';
const store = openUsageStore(':memory:', { keepRows: true, mac: usageMac });
let rowsRead = 0;
const usage = {
  totals: store.totals.bind(store),
  periods: store.periods.bind(store),
  requests: (query: RequestQuery) => {
    const found = store.requests(query);
    rowsRead += found.length;
    return found;
  },
  get completeFrom() {
    return store.completeFrom;
  },
};
const app = Fastify({ schemaController: { compilersFactory } });
let url: string;

const row = (n: number, organisation: string, month: string): object => ({
  ...{ v: 1, incarnation, n, organisation, draw: 'pool', model: 'echo-small' },
  ...{ at: `2026-${month}-21T10:00:00.000Z`, period: `2026-${month}-01` },
  ...{ promptTokens: 1, completionTokens: 1, requestId: `r-${n}` },
});

beforeAll(async () => {
  // One row in 600 belongs to acme, in two alternating periods.
  const rows = Array.from({ length: 3000 }, (_, index) =>
    row(index + 1, index % 600 === 0 ? 'acme' : 'birch', index % 1200 === 0 ? '10' : '11'),
  );
  store.apply(
    0,
    rows.map((each, offset) => {
      const value = Buffer.from(JSON.stringify([each]));
      return { offset, value, signature: usageMac.of(value) };
    }),
  );
  refuseOthers(app);
  addHandlers(app, usageHandlers({ snapshot: memorySnapshot(), usage } as unknown as AdminContext));
  await app.listen({ host: '127.0.0.1', port: 0 });
  url = `http://127.0.0.1:${(app.server.address() as AddressInfo).port}/usage/export`;
});
afterAll(async () => {
  await app.close();
  store.close();
});

async function exported(query: string): Promise<UsageRow[]> {
  rowsRead = 0;
  const text = await (await fetch(`${url}?${query}`)).text();
  return text.split('\n').flatMap((line) => (line === '' ? [] : [JSON.parse(line) as UsageRow]));
}
const numbers = (rows: readonly UsageRow[]): number[] => rows.map(({ n }) => n);

test('exporting one organisation reads no other organisation’s rows', async () => {
  expect(numbers(await exported('organisation=acme'))).toEqual([1, 1201, 2401, 601, 1801]);
  expect(rowsRead).toBe(5);
  expect(await exported('organisation=nobody')).toEqual([]);
  expect(rowsRead).toBe(0);
});

test('exporting one organisation respects the requested days', async () => {
  expect(numbers(await exported('organisation=acme&from=2026-11-01'))).toEqual([601, 1801]);
  expect(numbers(await exported('organisation=acme&to=2026-11-01'))).toEqual([1, 1201, 2401]);
});

test('exporting everything contains every row once, in slices', async () => {
  expect(numbers(await exported(''))).toEqual(Array.from({ length: 3000 }, (_, index) => index + 1));
});

test('an export states from which day it is complete', async () => {
  const completeFrom = async () => {
    const response = await fetch(url);
    // Reads the answer, because an unread answer keeps its connection open, and the server would wait for it when it closes.
    await response.text();
    return response.headers.get('x-headgate-complete-from');
  };
  expect(await completeFrom()).toBeNull();
  store.rows.removeBefore('2026-10-25');
  expect(await completeFrom()).toBe('2026-10-25');
});
