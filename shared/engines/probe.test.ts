import { expect, test } from 'vitest';
import { startFaultyNode } from '../../test/simulator/faulty-node.ts';
import { stall } from '../../test/support/stall.ts';
import { AskedModels } from './asked-models.ts';
import { probe } from './probe.ts';

test('a node whose answer this process had no time to read is up, and a silent one is down', async () => {
  const node = await startFaultyNode({ models: ['echo-small'] });
  const target = { url: node.url, dialect: 'vllm' } as const;
  const probing = probe(target, new AskedModels(), 500);
  stall(1000);
  expect(await probing).toMatchObject({ up: true, models: ['echo-small'] });

  node.setBehaviour({ rules: [{ match: { path: '/health' }, fault: { kind: 'stall' } }] });
  const silent = { up: false, reason: 'no answer in time', silent: true };
  expect(await probe(target, new AskedModels(), 500)).toEqual(silent);
  await node.close();
});
