/** A follower of requests that reads slowly gets all of a turn, and is not buffered for. */
import { createServer, get, type IncomingMessage } from 'node:http';
import { expect, test } from 'vitest';
import type { RequestRow, RequestsMessage } from '../../schemas/requests.ts';
import { portOf } from '../../test/support/listen.ts';
import { writeRows } from './request-routes.ts';

test('a turn of any size is read in messages, and what waits to be read is bounded', async () => {
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
