import { connect } from 'node:net';
import { pino } from 'pino';
import { Gauge, Registry } from 'prom-client';
import { expect, test } from 'vitest';
import { Connections } from './connections.ts';
import { startHealthServer } from './health-server.ts';
import { ObservedMetrics } from './observed-metrics.ts';

test('names chosen by others are escaped in every process’s metrics', async () => {
  const metrics = new Registry();
  const name = 'a\u001b[2J\u009b\u202eb\u2028\ufeff"\\\n';
  new Gauge({ name: 'one', help: 'one', labelNames: ['name'], registers: [metrics] }).set({ name }, 1);
  const connections = new Connections({ registry: metrics, logger: pino({ level: 'silent' }) });
  const server = await startHealthServer({
    ...{ host: '127.0.0.1', port: 0, checks: () => [], metrics, connections },
  });
  const body = await (await fetch(`${server.url}/metrics`)).text();
  await server.close();
  expect(body).toContain('one{name="a\\\\u001b[2J\\\\u009b\\\\u202eb\\\\u2028\\\\ufeff\\"\\\\\\n"} 1\n');
  expect(body).not.toMatch(/[^\P{Cc}\n]|[\u202e\u2028\ufeff]/u);
});

test('any number of requests for metrics in one turn of the event loop render them once', async () => {
  const metrics = new Registry();
  const connections = new Connections({ registry: metrics, logger: pino({ level: 'silent' }) });
  let inTurn = 0;
  let mostInTurn = 0;
  new ObservedMetrics(metrics).gauge('one', 'one', () => {
    if (inTurn === 0)
      setImmediate(() => {
        inTurn = 0;
      });
    mostInTurn = Math.max(mostInTurn, ++inTurn);
    return inTurn;
  });
  const server = await startHealthServer({
    ...{ host: '127.0.0.1', port: 0, checks: () => [], metrics, connections },
  });
  const socket = connect(Number(new URL(server.url).port), '127.0.0.1');
  socket.end('GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(20));
  let answers = '';
  for await (const piece of socket) answers += String(piece);
  await server.close();
  expect(answers.match(/HTTP\/1\.1 200/g)).toHaveLength(20);
  expect(mostInTurn).toBe(1);
});
