/**
 * Tests streams of requests: a slow client must get all rows although the buffer is bounded, and a member's request rate is
 * limited.
 */
import { createServer, get, type IncomingMessage } from 'node:http';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import type { RequestRow, RequestsMessage } from '../../schemas/admin/requests.ts';
import { statusTopic } from '../../schemas/records/status.ts';
import { openLog } from '../../shared/log/open-log.ts';
import { questionScheme } from '../../shared/status/signed-question.ts';
import { StatusMac } from '../../shared/status/status-mac.ts';
import { askAdmin } from '../../test/support/ask-admin.ts';
import { startControlPlaneAlone } from '../../test/support/control-plane.ts';
import { operatorToken } from '../../test/support/fleet.ts';
import { portOf, urlOf } from '../../test/support/listen.ts';
import { publish, reportOf } from '../../test/support/status-reports.ts';
import { until } from '../../test/support/until.ts';
import { writeRows } from './request-routes.ts';

test('a batch of any size is read in messages, and the unread part is bounded', async () => {
  const rows = Array.from(
    { length: 20_000 },
    (_, n) => ({ request: `req_${n}`, gateway: 'a-gateway-name-that-is-long'.repeat(12) }) as RequestRow,
  );
  let buffered = 0;
  const server = createServer((_request, response) => {
    const write = response.write.bind(response) as (text: string) => boolean;
    response.write = (text: string) => {
      const taken = write(text);
      buffered = Math.max(buffered, response.writableLength);
      return taken;
    };
    const { signal } = new AbortController();
    void writeRows(response, rows, { silent: ['gw-2'], missed: 7 }, signal).then(() => response.end());
  });
  const port = await portOf(server);
  try {
    const answer = await new Promise<IncomingMessage>((resolve) => get({ port, host: '127.0.0.1' }, resolve));
    let text = '';
    for await (const piece of answer) {
      text += String(piece);
      await new Promise(setImmediate);
    }
    const messages = [...text.matchAll(/event: requests\ndata: (.*)\n\n/g)].map(
      ([, data = '']) => JSON.parse(data) as RequestsMessage,
    );
    const read = messages.flatMap(({ items }) => items.toReversed());
    expect(read.map(({ request }) => request)).toEqual(rows.map(({ request }) => request));
    expect(messages.map(({ missed = 0 }) => missed).reduce((sum, each) => sum + each)).toBe(7);
    expect(buffered).toBeLessThan(1024 * 1024);
  } finally {
    server.close();
  }
});

test.each([
  ['vic', '', '200'],
  ['vic', '&rows-per-second=10000', '200'],
  ['vic', '&rows-per-second=7', '14'],
  [undefined, '', null],
  [undefined, '&rows-per-second=10000', '20000'],
] as const)(
  'a stream for member %s with the query "%s" asks the only gateway for %s rows per second',
  async (as, query, rate) => {
    const plane = await startControlPlaneAlone();
    onTestFinished(() => plane.close());
    await plane.admin.apply({
      version: 1,
      tiers: [{ id: 'Pro', models: '*' }],
      organisations: [
        { id: 'acme', name: 'Acme', tier: 'Pro', members: [{ person: 'vic', role: 'viewer' as const }] },
      ],
    });
    const asked: URL[] = [];
    const gateway = createServer(({ url }, response) => {
      asked.push(new URL(url ?? '', 'http://gateway'));
      response.writeHead(401, { 'www-authenticate': `${questionScheme} challenge=${'c'.repeat(40)}` }).end();
    });
    onTestFinished(() => void gateway.close());
    const metrics = await urlOf(gateway);
    const log = await openLog(`sqlite:${join(plane.dir, 'log')}`, { topic: statusTopic });
    const { log: id } = await plane.admin.call('GET', '/status');
    await publish(log, reportOf({ log: String(id), metrics }), new StatusMac(operatorToken));
    await log.close();
    await until(async () => ((await plane.admin.call('GET', '/gateways'))['items'] as object[]).length === 1);
    const stream = await askAdmin(plane.url, `/requests/stream?organisation=acme${query}`, { as });
    await until(() => asked.length > 0);
    await stream.body?.cancel();
    const { pathname, searchParams } = asked[0] as URL;
    expect([pathname, searchParams.get('rowsPerSecond')]).toEqual(['/requests/live', rate]);
  },
);
