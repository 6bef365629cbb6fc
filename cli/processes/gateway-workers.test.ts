/** Of one option line each worker process makes a gateway of its own; what another number of them left is found. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { othersIn, workerOf } from './gateway-workers.ts';

const data = mkdtempSync(join(tmpdir(), 'headgate-workers-'));
afterAll(() => rmSync(data, { recursive: true }));

test('each has a name, a folder and ports, and the parent alone a ready file', () => {
  const all = { name: 'gw', data, metricsPort: 9464, readyFile: 'ready.json', bind: '::1' };
  expect(workerOf({ ...all, advertise: 'https://gw.example.net:9464' }, 2)).toEqual({
    ...{ name: 'gw/2', data: join(data, 'worker-2'), metricsPort: 9466, bind: '::1' },
    ...{ advertise: 'https://gw.example.net:9466', readyFile: undefined },
  });
  const { advertise, metricsPort } = workerOf({ ...all, metricsPort: 0, advertise: 'gw.example.net' }, 2);
  expect([advertise, metricsPort]).toEqual(['gw.example.net', 0]);
});

test('usage that another number of processes left is found, and nothing that is no folder of a gateway', () => {
  const left = (workers: number) =>
    othersIn({ name: 'gw', data, workers }).map(({ name, isLocked }) => `${name} ${isLocked}`);
  expect([left(1), left(2), othersIn({ name: 'gw', data: join(data, 'none'), workers: 1 })]).toEqual([
    [],
    [],
    [],
  ]);
  for (const folder of ['', 'worker-1', 'worker-3', 'worker-x']) {
    mkdirSync(join(data, folder), { recursive: true });
    writeFileSync(join(data, folder, 'outbox.db'), '');
  }
  mkdirSync(join(data, 'worker-4'));
  expect(left(1)).toEqual(['gw/1 false', 'gw/3 false']);
  expect(left(2)).toEqual(['gw true', 'gw/3 false']);
  expect(left(3)).toEqual(['gw true']);
});
