/** Attacks by a member or a visitor who does not need any rights beyond their own. */
import { setMaxListeners } from 'node:events';
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { post } from '../play/page-calls.ts';
import { endpointOf, RawPeer, statusesIn } from '../support/raw-peer.ts';
import { until } from '../support/until.ts';
import type { Attack } from './attack.ts';
import { attacked, bystander, freeTurns, slow } from './fleet.ts';
import { aborted, flood, hold, requestTo } from './peers.ts';

const walMiBMax = 32;

const creates: Attack = {
  name: 'a member who creates keys over 1500 connections',
  at: 'console',
  // libuv accepts one connection per listener and turn, so a new caller must wait for 1500 turns behind the attack's
  // connections.
  mayRefuse: ['console'],
  run: async ({ fleet, signal }) => {
    const body = JSON.stringify({ organisation: attacked, name: 'k', expires: '30d' });
    const headers = { cookie: await fleet.cookieOf('mem') };
    const bytes = requestTo(fleet.console, { path: '/api/keys', headers, body });
    const connections = 1500;
    const counts = new Map<number, number>();
    const end = new AbortController();
    setMaxListeners(0, end.signal);
    const flooding = flood(fleet.console, { connections, bytes }, end.signal, counts);
    // Once every connection has received an answer, the server has as many waiting requests as it allows.
    await until(() => [...counts.values()].reduce((sum, count) => sum + count, 0) >= connections, 60_000);
    let refused = '';
    for (let command = 0; command < 10; command++)
      await fleet.operator.createKey(bystander, 'meanwhile', '30d').catch((error: Error) => {
        refused = error.message;
      });
    await aborted(signal);
    end.abort();
    await flooding;
    if (refused !== '') return [`a command of the operator was refused: ${refused}`];
    const folder = fleet.folderOf('gateway-1');
    const wals = readdirSync(folder).filter((name) => name.endsWith('-wal'));
    return wals.flatMap((name) => {
      const MiB = statSync(join(folder, name)).size / 2 ** 20;
      return MiB > walMiBMax ? [`${name} of a gateway has ${Math.round(MiB)} MiB`] : [];
    });
  },
};

const streams: Attack = {
  name: 'a viewer who opens 1000 streams',
  at: 'console',
  run: async ({ fleet, signal }) => {
    const headers = { cookie: await fleet.cookieOf('vic') };
    const bytes = requestTo(fleet.console, { method: 'GET', path: '/api/stream', headers });
    const cookie = await fleet.cookieOf();
    let status: number | undefined;
    const whenHeld = async (): Promise<void> => {
      const operator = await RawPeer.open(endpointOf(fleet.console));
      await operator.send(
        requestTo(fleet.console, { method: 'GET', path: '/api/stream', headers: { cookie } }),
      );
      await operator.received(/HTTP\/1\.1 \d/);
      [status] = statusesIn(operator.text);
      operator.close();
    };
    await hold(fleet.console, { count: 1000, bytes, whenHeld }, signal);
    if (status === undefined) return ['the streams were not opened in time'];
    return status === 200 ? [] : [`the stream of the operator is answered ${status}`];
  },
};

const matrix: Attack = {
  name: 'a viewer who asks for the matrix of a large catalog',
  at: 'console',
  run: async ({ fleet, signal }) => {
    const headers = { cookie: await fleet.cookieOf('vic') };
    const path = `/api/explain/matrix?organisation=${attacked}`;
    const bytes = requestTo(fleet.console, { method: 'GET', path, headers });
    await flood(fleet.console, { connections: 4, bytes }, signal);
    return [];
  },
};

const confirmations: Attack = {
  name: 'a viewer who waits 2000 times for a position, and leaves',
  at: 'console',
  run: async ({ fleet, signal }) => {
    const headers = { cookie: await fleet.cookieOf('vic') };
    const path = '/api/confirmations/999999999';
    const bytes = requestTo(fleet.console, { method: 'GET', path, headers });
    while (!signal.aborted) {
      const leaves = AbortSignal.any([signal, AbortSignal.timeout(1000)]);
      await hold(fleet.console, { count: 500, bytes }, leaves);
    }
    return [];
  },
};

const manyNames: Attack = {
  name: 'bodies of a member with many names',
  at: 'console',
  run: async ({ fleet, signal }) => {
    const body = JSON.stringify(Object.fromEntries(Array.from({ length: 70_000 }, (_, at) => [`a${at}`, 0])));
    const headers = { cookie: await fleet.cookieOf('mem') };
    const bytes = requestTo(fleet.console, { path: '/api/keys', headers, body });
    await flood(fleet.console, { connections: 4, bytes }, signal);
    return [];
  },
};

const turns: Attack = {
  name: 'turns of one visitor at once',
  at: 'play',
  run: async ({ fleet }) => {
    const address = '127.0.0.1';
    const page = (path: string): URL => new URL(path, fleet.gateway.ready.play);
    const { cookie } = await post(page('/api/visitor'), {}, { address });
    const turn = {
      model: slow,
      max_tokens: 20,
      stream: true,
      messages: [{ role: 'user', content: 'say 20 words' }],
    };
    const ask = async (): Promise<number> =>
      (await post(page('/api/chat'), turn, { address, cookie })).status;
    const statuses = await Promise.all(Array.from({ length: 4 * freeTurns }, ask));
    const answered = statuses.filter((status) => status === 200).length;
    if (answered === 0) return [`no turn was answered: ${statuses.join()}`];
    return answered > freeTurns ? [`${answered} turns of ${freeTurns} were answered`] : [];
  },
};

export const callerAttacks: readonly Attack[] = [creates, streams, matrix, confirmations, manyNames, turns];
