/**
 * Tests commands that may have been executed although the CLI got no answer. Whatever fails afterwards, the user must read
 * that the outcome is unknown, the command's id, and how to find out.
 */
import { expect, test } from 'vitest';
import { cliOf, errorAnswer, type TestAnswer, useAdminServer } from '../test/support/admin-server.ts';

const server = useAdminServer();

const cli = cliOf(server);

const idSent = () => String(server.seen[0]?.headers['idempotency-key']);
const command = ['org', 'resume', 'acme'];
const proxy: TestAnswer = { status: 504, bytes: Buffer.from('<html>gateway time-out</html>') };

const unknown: readonly (readonly [string, TestAnswer])[] = [
  ['an unknown outcome', errorAnswer(503, 'OutcomeUnknown')],
  ['a lost connection', 'hang-up'],
];
const later: readonly (readonly [string, TestAnswer, string])[] = [
  ['the log is unavailable', errorAnswer(503, 'LogUnavailable'), 'LogUnavailable it is'],
  ['a refusal that says nothing about the first', errorAnswer(409, 'Conflict'), 'Conflict it is'],
  ['the token is refused', errorAnswer(401, 'Unauthorized'), 'Unauthorized it is'],
  ['too many calls', errorAnswer(429, 'TooManyRequests'), 'TooManyRequests it is'],
  ['a service fault', errorAnswer(500, 'InternalError'), 'InternalError it is'],
  ['a proxy without a backend', { status: 502, bytes: Buffer.from('bad gateway') }, 'HTTP 502'],
  ['a server of another kind', { bytes: Buffer.from('<html>') }, 'HTTP 200'],
  ['another such outcome', errorAnswer(503, 'OutcomeUnknown'), 'OutcomeUnknown it is'],
];
const both = unknown.flatMap(([first, answer]) =>
  later.map(([name, then, why]) => ({ first, answer, name, then, why })),
);

test.each(both)('after $first, $name settles nothing', async ({ answer, then, why }) => {
  server.answer = () => (server.seen.length === 1 ? answer : then);
  const { code, out, err } = await cli(command);
  expect([code, out]).toEqual([7, '']);
  expect(err).toContain(`it is not known whether command ${idSent()} was carried out\n`);
  expect(err).toContain(`--command-id ${idSent()}`);
  expect(err).toContain(why);
});

test('a proxy time-out leaves a command’s outcome unknown, but not a read’s', async () => {
  server.answer = () => proxy;
  expect((await cli(command)).err).toContain(
    `error[OutcomeUnknown]: it is not known whether command ${idSent()}`,
  );
  expect((await cli(['org', 'list'])).err).toContain('is not a Headgate control plane');
});

test('interrupting a command in flight prints its id and exits as an interrupt', async () => {
  const controller = new AbortController();
  server.answer = () => {
    controller.abort();
    return { body: {} };
  };
  const { code, err } = await cli(command, { signal: controller.signal });
  expect([code, err]).toEqual([
    130,
    expect.stringContaining(`error[Interrupted]: interrupted: it is not known whether command ${idSent()}`),
  ]);
});

test.each<[string, readonly string[]]>([
  ['a dry run', [...command, '--dry-run']],
  ['a read', ['org', 'list']],
])('%s never has an unknown outcome', async (_, argv) => {
  server.answer = () => (server.seen.length === 1 ? 'hang-up' : errorAnswer(503, 'LogUnavailable'));
  const { code, err } = await cli(argv);
  expect([code, err]).toEqual([7, expect.stringMatching(/^error\[LogUnavailable\]/)]);
});

test('repeating a command with its id gives its outcome', async () => {
  server.answer = () => errorAnswer(503, 'OutcomeUnknown');
  const { err } = await cli(command);
  const [, id = ''] = /--command-id (\S+):/.exec(err) ?? [];
  server.seen.length = 0;
  server.answer = () => ({ body: { id: 'acme', position: 3, repeated: true } });
  expect((await cli([...command, '--command-id', id])).code).toBe(0);
  expect(server.seen.map(({ headers }) => headers['idempotency-key'])).toEqual([id]);
  expect((await cli([...command, '--command-id', 'x y'])).code).toBe(2);
});
