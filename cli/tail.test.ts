/**
 * Tests the live tail over a real WebSocket: events must arrive in order, without repeats or gaps, and the tail must end when
 * it is asked to.
 */
import type { IncomingMessage } from 'node:http';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type WebSocket, WebSocketServer } from 'ws';
import { type AdminServer, errorAnswer, startAdminServer, testToken } from '../test/support/admin-server.ts';
import { type CliOptions, type CliRun, runCli, testIo } from '../test/support/run-cli.ts';
import { tail as follow } from './commands/tail.ts';
import { Session } from './terminal/session.ts';

let server: AdminServer;
let sockets: WebSocketServer;
beforeEach(async () => {
  server = await startAdminServer();
  server.answer = () => ({ body: { position: 4 } });
  sockets = new WebSocketServer({ server: server.http, path: '/admin/v1/events/stream' });
});
afterEach(async () => {
  for (const socket of sockets.clients) socket.terminate();
  sockets.close();
  await server.close();
});

function tail(argv: readonly string[], options: CliOptions = {}): Promise<CliRun> {
  const env = { HEADGATE_ADMIN: server.url, HEADGATE_TOKEN: testToken };
  return runCli(['events', 'tail', ...argv], { env, ...options });
}

const event = (position: number, index = 0) => ({
  position,
  index,
  type: 'no_op',
  data: {},
  at: 't',
  by: 'b',
});
const line = (position: number, index = 0): string => `${JSON.stringify(event(position, index))}\n`;

/** Runs the tail until `wanted` appears on stdout, then interrupts it. */
async function tailUntil(wanted: string, argv: readonly string[], more: CliOptions = {}): Promise<CliRun> {
  const controller = new AbortController();
  const onStdout = (text: string): void => {
    if (text === wanted) controller.abort();
  };
  return tail(argv, { ...more, onStdout, signal: controller.signal });
}

test('a tail starts after the end of the log, sends its token, and exits 130 on Ctrl-C', async () => {
  const requests: IncomingMessage[] = [];
  sockets.on('connection', (socket: WebSocket, request: IncomingMessage) => {
    requests.push(request);
    socket.send(JSON.stringify(event(5)));
    socket.send(JSON.stringify(event(6)));
  });
  const run = await tailUntil(line(6), ['--type', 'no_op']);
  expect(run).toMatchObject({ code: 130, out: line(5) + line(6) });
  expect(requests[0]?.url).toBe('/admin/v1/events/stream?from=5&type=no_op');
  expect(requests[0]?.headers.authorization).toBe(`Bearer ${testToken}`);
  expect(requests[0]?.headers.origin).toBeUndefined();
});

test('after a lost connection, the tail resumes in the middle of a commit without repeats or gaps', async () => {
  const from: (string | undefined)[] = [];
  sockets.on('connection', (socket: WebSocket, request: IncomingMessage) => {
    from.push(request.url?.split('from=')[1]);
    const all = [event(1), event(2, 0), event(2, 1), event(3)];
    const shown = from.length === 1 ? all.slice(0, 2) : all.slice(1);
    for (const sent of shown) socket.send(JSON.stringify(sent));
    if (from.length === 1) socket.close();
  });
  const run = await tailUntil(line(3), ['--from', '1']);
  expect(run.out).toBe(line(1) + line(2, 0) + line(2, 1) + line(3));
  expect(run.err).toContain('resuming at position 2');
  expect(from).toEqual(['1', '2']);
});

test('if more events arrive than can be held, the tail reconnects and all arrive', async () => {
  const many = 12_000;
  const from: number[] = [];
  const dropped = new Promise<void>((resolve) => {
    sockets.on('connection', (socket: WebSocket, request: IncomingMessage) => {
      from.push(Number(request.url?.split('from=')[1]));
      socket.once('close', () => resolve());
      for (let position = from.at(-1) ?? 0; position <= many; position++) {
        socket.send(JSON.stringify(event(position)));
      }
    });
  });
  const controller = new AbortController();
  const run = await tail(['--from', '1', '-q'], {
    signal: controller.signal,
    onStdout: async (text) => {
      // Stop reading stdout until so many events are queued that the tail drops its connection.
      await dropped;
      if (text === line(many)) controller.abort();
    },
  });
  const positions = run.out
    .trimEnd()
    .split('\n')
    .map((text) => JSON.parse(text).position);
  expect(positions).toEqual(Array.from({ length: many }, (_, at) => at + 1));
  expect(from).toHaveLength(2);
});

test('--until-end lists everything to the end without a live connection', async () => {
  server.answer = () => ({ body: { items: [event(1), event(2)], position: 2 } });
  expect(await tail(['--until-end'])).toMatchObject({ code: 0, out: line(1) + line(2) });
  expect(server.seen.map(({ path }) => path)).toEqual(['/events']);
});

test.each([
  ['table', '1  t  no_op  b wrote nothing\n'],
  ['name', '1\n'],
  ['json', line(1)],
])('on a terminal, a tail in %s prints one line per event', async (format, text) => {
  server.answer = () => ({ body: { items: [event(1)], position: 1 } });
  const run = await tail(['--until-end', '-o', format], { stdoutIsTerminal: true });
  expect(run.out).toBe(text);
});

test('a refused token exits 4 before connecting', async () => {
  server.answer = () => errorAnswer(401, 'Unauthorized');
  expect((await tail([])).code).toBe(4);
});

test('a tail that cannot reconnect exits 7 and names the position to resume from', async () => {
  sockets.on('connection', (socket: WebSocket) => socket.terminate());
  const { io } = testIo({ env: { HEADGATE_ADMIN: server.url, HEADGATE_TOKEN: testToken } });
  const session = new Session(io, {}, new AbortController().signal);
  await expect(follow(session, { from: 3 }, 1)).rejects.toMatchObject({
    exitCode: 7,
    next: 'headgate events tail --from 3',
  });
});

test('a tail that the control plane closes prints the reason each time and in the final error', async () => {
  sockets.on('connection', (socket: WebSocket) => socket.close(1011, 'the log was removed'));
  const { io, written } = testIo({ env: { HEADGATE_ADMIN: server.url, HEADGATE_TOKEN: testToken } });
  const session = new Session(io, {}, new AbortController().signal);
  await expect(follow(session, { from: 3 }, 1)).rejects.toMatchObject({
    exitCode: 7,
    why: ['the control plane closed it: the log was removed'],
    next: expect.stringMatching(/--admin.*headgate events tail --from 3/),
  });
  expect(written().err).toContain('closed the tail: the log was removed; resuming at position 3');
});

test('a connection without pongs is closed, and the tail resumes over a new one', async () => {
  let connections = 0;
  sockets.on('connection', (socket: WebSocket) => {
    connections++;
    socket.send(JSON.stringify(event(connections)));
    // Simulates a half-open connection: it is still open, but the peer no longer reads or answers.
    if (connections === 1) socket.pause();
  });
  const controller = new AbortController();
  const { io, written } = testIo({ env: { HEADGATE_ADMIN: server.url, HEADGATE_TOKEN: testToken } });
  const session = new Session(io, {}, controller.signal);
  const following = follow(session, { from: 1 }, 1, 20);
  await expect.poll(() => written().out, { timeout: 20_000 }).toBe(line(1) + line(2));
  expect(written().err).toContain('the control plane does not answer pings; resuming at position 1');
  controller.abort();
  await expect(following).rejects.toMatchObject({ exitCode: 130 });
  expect(connections).toBe(2);
});

test('an idle connection that answers pings stays open', async () => {
  let pings = 0;
  let connections = 0;
  const controller = new AbortController();
  sockets.on('connection', (socket: WebSocket) => {
    connections++;
    socket.on('ping', () => {
      if (++pings === 12) controller.abort();
    });
  });
  const { io } = testIo({ env: { HEADGATE_ADMIN: server.url, HEADGATE_TOKEN: testToken } });
  const session = new Session(io, {}, controller.signal);
  await expect(follow(session, { from: 1 }, 1, 20)).rejects.toMatchObject({ exitCode: 130 });
  expect(connections).toBe(1);
});
