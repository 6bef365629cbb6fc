import { pino } from 'pino';
import { Gauge, Registry } from 'prom-client';
import { expect, test } from 'vitest';
import { Connections } from './connections.ts';
import { startHealthServer } from './health-server.ts';

test('what others name is escaped in the metrics of every process', async () => {
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
