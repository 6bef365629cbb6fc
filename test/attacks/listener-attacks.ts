/**
 * Attacks that anyone who can reach a listener can make: bodies that are expensive to hold or parse, and idle connections.
 */
import { endpointOf, exchange, statusesIn } from '../support/raw-peer.ts';
import type { Attack, Stage } from './attack.ts';
import { type AttackFleet, small } from './fleet.ts';
import { flood, hold, holdUnread, oneByteChunks, requestTo } from './peers.ts';

const MiB = 1024 * 1024;
const bodyBytes = 8 * MiB - 64;
const session = '/api/session';

/** JSON texts that take a long time to parse for their size. */
const bodies: Readonly<Record<string, () => string>> = {
  'names that are numbers': () => names((index) => String((index * 2_654_435_761) % 4_294_967_291)),
  'distinct names': () => names((index) => index.toString(16)),
  nesting: () => '['.repeat(bodyBytes / 2) + ']'.repeat(bodyBytes / 2),
  'empty objects': () => `[${'{},'.repeat(bodyBytes / 3 - 2)}{}]`,
};

function names(nameOf: (index: number) => string): string {
  const parts: string[] = [];
  let length = 0;
  for (let index = 0; length < bodyBytes - 40; index++) {
    const part = `"${nameOf(index)}":0,`;
    parts.push(part);
    length += part.length;
  }
  return `{${parts.join('')}"z":0}`;
}

const urls: Readonly<Record<string, (fleet: AttackFleet) => string>> = {
  console: (fleet) => fleet.console,
  admin: (fleet) => fleet.plane.ready.admin,
  play: (fleet) => fleet.gateway.ready.play,
  api: (fleet) => fleet.gateway.ready.api,
  'metrics of a control plane': (fleet) => fleet.plane.ready.metrics,
  'metrics of a gateway': (fleet) => fleet.gateway.ready.metrics,
};
const paths: Readonly<Record<string, string>> = {
  console: session,
  admin: '/admin/v1/keys',
  play: '/api/visitor',
  api: '/v1/chat/completions',
};
const urlOf = (fleet: AttackFleet, at: string): string => urls[at]?.(fleet) ?? '';

/** Headers of a caller who may post to each listener, so that the listener reads the body. */
const bearers: Readonly<Record<string, (fleet: AttackFleet) => Record<string, string>>> = {
  api: (fleet) => ({ authorization: `Bearer ${fleet.key('acme')}` }),
};

function headAt(fleet: AttackFleet, at: string, length: number | 'chunked'): string {
  return requestTo(urlOf(fleet, at), {
    ...{ path: paths[at] ?? '/', length },
    headers: bearers[at]?.(fleet) ?? {},
  });
}

const parsed = Object.entries(bodies).flatMap(([name, make]) =>
  [1, 16].map(
    (connections): Attack => ({
      name: `bodies of 8 MiB with ${name}, ${connections} at once`,
      at: 'console',
      run: async ({ fleet, signal }) => {
        const bytes = requestTo(fleet.console, { path: session, body: make() });
        await flood(fleet.console, { connections, bytes }, signal);
        return [];
      },
    }),
  ),
);

const held = Object.keys(paths).flatMap((at): readonly Attack[] => [
  {
    name: 'bodies of one-byte chunks',
    at,
    run: async ({ fleet, signal }) => {
      const head = headAt(fleet, at, 'chunked');
      const one = (): Promise<void> => oneByteChunks(urlOf(fleet, at), head, signal);
      await Promise.all(Array.from({ length: 4 }, one));
      return [];
    },
  },
  {
    name: 'bodies of 8 MiB, all but their last byte',
    at,
    run: async ({ fleet, signal }) => {
      const bytes = `${headAt(fleet, at, bodyBytes)}{${' '.repeat(bodyBytes - 2)}`;
      await hold(urlOf(fleet, at), { count: 60, bytes }, signal);
      return [];
    },
  },
  {
    name: 'a head, and then nothing',
    at,
    run: async ({ fleet, signal }) => {
      await hold(urlOf(fleet, at), { count: 500, bytes: headAt(fleet, at, 1000) }, signal);
      return [];
    },
  },
  {
    name: 'bodies of one byte a second',
    at,
    run: async ({ fleet, signal }) => {
      const slow = { count: 200, bytes: headAt(fleet, at, 100_000), drip: ' ' };
      await hold(urlOf(fleet, at), slow, signal);
      return [];
    },
  },
]);

/** Tries to bypass the guard against DNS rebinding with a second Host header, or with another host in the request line. */
const readTwice: Attack = {
  name: 'two hosts, and the absolute form',
  at: 'every listener',
  run: async ({ fleet }) => {
    const faults: string[] = [];
    for (const [at, of] of Object.entries(urls)) {
      const { host } = new URL(of(fleet));
      const path = at.startsWith('metrics') ? '/livez' : '/';
      const heads = {
        'two Host headers': `GET ${path} HTTP/1.1\r\nHost: ${host}\r\nHost: evil.test\r\n`,
        'another host in the target': `GET http://evil.test${path} HTTP/1.1\r\nHost: ${host}\r\n`,
        'a target that is no URL': `GET http://[::1 HTTP/1.1\r\nHost: ${host}\r\n`,
      };
      for (const [what, head] of Object.entries(heads)) {
        const answer = await exchange(endpointOf(of(fleet)), `${head}Connection: close\r\n\r\n`);
        const [status = 0] = statusesIn(answer);
        if (status < 400 || status >= 500) faults.push(`${at}: ${what} is answered ${status}`);
      }
    }
    return faults;
  },
};

const idle: Attack = {
  name: '90 connections that send nothing',
  at: 'metrics of a control plane',
  // The attack holds 90 connections from one address, and the listener has room for 100.
  mayRefuse: ['health'],
  run: async ({ fleet, signal }) => {
    await hold(fleet.plane.ready.metrics, { count: 90, bytes: '' }, signal);
    return [];
  },
};

const wrongBearers: Attack = {
  name: 'wrong bearers without end',
  at: 'admin',
  run: async ({ fleet, signal }) => {
    const headers = { authorization: 'Bearer a-token-of-nobody' };
    const bytes = requestTo(fleet.plane.ready.admin, { method: 'GET', path: '/admin/v1/keys', headers });
    const counts = await flood(fleet.plane.ready.admin, { connections: 64, bytes }, signal);
    const tried = counts.get(401) ?? 0;
    const isLimited = tried <= bearersTriedMax && (counts.has(429) || counts.has(503));
    return isLimited ? [] : [`${tried} wrong bearers were compared: attempts are not limited`];
  },
};
/**
 * Largest number of wrong tokens that a listener may compare. Even if the attempts spread over several minutes on a slow
 * machine, some must be refused uncompared by then.
 */
const bearersTriedMax = 200;

/** An attack that repeats requests on its connections and never reads an answer. */
const unread = (at: string, path: (stage: Stage) => Promise<string>): Attack => ({
  name: 'answers that nobody reads',
  at,
  run: async (stage) => {
    const { fleet, signal } = stage;
    const bytes = (await path(stage)).repeat(200);
    await holdUnread(urlOf(fleet, at), { count: 20, bytes }, signal);
    return [];
  },
});

const slowReaders: readonly Attack[] = [
  unread('admin', async ({ fleet }) =>
    requestTo(fleet.plane.ready.admin, {
      ...{ method: 'GET', path: '/admin/v1/models?limit=10000' },
      headers: { authorization: `Bearer ${fleet.env['HEADGATE_OPERATOR_TOKEN']}` },
    }),
  ),
  unread('console', async ({ fleet }) =>
    requestTo(fleet.console, {
      ...{ method: 'GET', path: '/api/models' },
      headers: { cookie: await fleet.cookieOf('vic') },
    }),
  ),
  unread('api', async ({ fleet }) =>
    requestTo(fleet.gateway.ready.api, {
      path: '/v1/chat/completions',
      headers: { authorization: `Bearer ${fleet.key('acme')}` },
      body: JSON.stringify({
        ...{ model: small, stream: true },
        messages: [{ role: 'user', content: 'say 500 words' }],
      }),
    }),
  ),
];

export const listenerAttacks: readonly Attack[] = [
  ...held,
  ...parsed,
  readTwice,
  idle,
  wrongBearers,
  ...slowReaders,
];
