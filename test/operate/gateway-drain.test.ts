/**
 * Tests a gateway whose drain time runs out. Each client and the operator must learn what happened to the requests in flight.
 */
import { PassThrough } from 'node:stream';
import { pino } from 'pino';
import { expect, onTestFinished, test } from 'vitest';
import { parseBehaviour } from '../simulator/behaviour.ts';
import { startFleet } from '../support/fleet.ts';
import { hold } from '../support/held.ts';
import { specFleet } from '../support/spec-fleet.ts';
import { until } from '../support/until.ts';

test('a drain that times out refuses unanswered requests, cuts streams without a frame and logs their number', async () => {
  const lines = new PassThrough();
  let logged = '';
  lines.on('data', (text) => {
    logged += String(text);
  });
  const fleet = await startFleet({
    fleet: specFleet,
    gateway: { drainTimeoutSeconds: 0, logger: pino({}, lines) },
  });
  onTestFinished(() => fleet.close());
  const { value: key } = await fleet.key('birch');
  await fleet.seen('pool-1', true);
  const at = fleet.nodes['pool-1'];
  const request = { port: fleet.port(), key, model: 'echo-small', at };
  at.setBehaviour(parseBehaviour({ rules: [{ fault: { kind: 'stall-after', afterEvents: 2 } }] }));
  const stream = await hold({ ...request, more: { stream: true } });
  await until(() => stream.received().includes('data: '));
  at.setBehaviour(parseBehaviour({ rules: [{ fault: { kind: 'stall' } }] }));
  const unanswered = [await hold(request), await hold({ ...request, more: { stream: true } })];
  await fleet.gateways[0]?.close();
  await Promise.all([stream, ...unanswered].map(({ closed }) => closed));
  expect(stream.received()).toMatch(/^HTTP\/1\.1 200 /);
  expect(stream.received()).not.toContain('error');
  expect(stream.received()).not.toContain('\r\n0\r\n');
  for (const { received } of unanswered) {
    expect(received()).toMatch(/^HTTP\/1\.1 503 /);
    expect(received()).toContain('"type":"InferenceUnavailableError"');
    const [, id] = /^x-request-id: (\S+)/im.exec(received()) ?? [];
    expect(logged).toContain(id);
  }
  expect(logged).toContain('gateway: drain ended');
  const line = logged.split('\n').find((each) => each.includes('the drain timed out')) ?? '{}';
  expect(JSON.parse(line)).toMatchObject({ level: 40, requests: 3 });
});
