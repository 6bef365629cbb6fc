/**
 * Runs the commands in README and docs line by line against a fleet, with the fleet's names in place of the page's. A comment
 * above a block gives the reason if the block cannot run. A line may fail with the exit code that its own comment names.
 */
import { execFile } from 'node:child_process';
import { chmodSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  operatorToken,
  organisation,
  type Plane,
  ProcessFleet,
  smallFleet,
  statusWith,
} from '../support/process-fleet.ts';
import { binary } from '../support/processes.ts';
import { until } from '../support/until.ts';

const root = resolve(import.meta.dirname, '../..');
const pages = [
  'README.md',
  ...readdirSync(join(root, 'docs'))
    .filter((name) => name.endsWith('.md') && name !== 'specification.md')
    .map((name) => `docs/${name}`),
];

interface Block {
  readonly page: string;
  /** Reason why the block does not run, or undefined if it does. */
  readonly reason: string | undefined;
  readonly lines: readonly string[];
}

const fence = /(?:<!-- not run: ([^\n]+) -->\n)? *```(\w*)\n(.*?)^ *```$/gms;
const blocks: Block[] = pages.flatMap((page) =>
  [...readFileSync(join(root, page), 'utf8').matchAll(fence)]
    .filter(([, , language]) => language === '' || language === 'sh')
    .map(([, reason, , text = '']) => ({
      page,
      reason,
      lines: text
        .trimEnd()
        .replaceAll(/ \\\n */g, ' ')
        .split('\n'),
    })),
);
const runnable = blocks.filter(({ reason }) => reason === undefined);

const fleet = new ProcessFleet();
const work = join(fleet.dir, 'work');
let env: Record<string, string>;
let names: Record<string, string>;
let plane: Plane;
/** Several keys, because each can be revoked only once. */
const keyIds: string[] = [];

function bash(line: string): Promise<{ code: number; output: string }> {
  const options = { cwd: work, env, timeout: 120_000 };
  return new Promise((done) => {
    execFile('bash', ['--norc', '-euo', 'pipefail', '-c', line], options, (error, stdout, stderr) =>
      done({ code: error === null ? 0 : Number(error.code ?? -1), output: stdout + stderr }),
    );
  });
}

beforeAll(async () => {
  const bin = join(fleet.dir, 'bin');
  for (const folder of [bin, work]) mkdirSync(folder, { recursive: true });
  writeFileSync(join(bin, 'headgate'), `#!/bin/sh\nexec "${process.execPath}" "${binary}" "$@"\n`);
  chmodSync(join(bin, 'headgate'), 0o755);
  env = { ...(process.env as Record<string, string>), ...fleet.env, PATH: `${bin}:${process.env['PATH']}` };
  // Creates a signing key as docs/security.md explains.
  const firstKey = join(work, 'first-signer');
  for (const command of [
    `openssl genpkey -algorithm ed25519 -out ${firstKey}.pem`,
    `openssl pkey -in ${firstKey}.pem -pubout -out ${firstKey}.pub`,
  ])
    expect((await bash(command)).code).toBe(0);
  const signing = { HEADGATE_SIGNING_KEY: `${firstKey}.pem` };
  plane = await fleet.serve('control-plane', 'cp', ['--console-port', '0'], signing);
  const node = await fleet.simNode('node');
  const admin = fleet.admin(plane);
  const document = smallFleet(node.ready.url) as { organisations: object[]; pool: object };
  await admin.apply(document as unknown as Parameters<typeof admin.apply>[0]);
  await admin.call('POST', '/stacks', { organisation, id: 'stk-amber-otter-9k2f' });
  const undone = await admin.call('POST', '/stacks', { organisation, id: 'stk-brown-heron-3c4d' });
  const gateway = await fleet.serve<{ api: string }>('gateway', 'gw');
  const first = await admin.createKey(organisation, 'one');
  const third = await admin.createKey(organisation, 'three');
  for (const name of ['two', 'four']) keyIds.push((await admin.createKey(organisation, name)).id);
  await until(async () => (await statusWith(gateway.ready.api, first.value)) === 200, 60_000);
  const revoked = await admin.call('POST', `/keys/${third.id}/revoke`);
  writeFileSync(join(fleet.dir, 'probe.key'), first.value, { mode: 0o600 });
  env = {
    ...env,
    HEADGATE_ADMIN: plane.ready.admin,
    HEADGATE_TOKEN: operatorToken,
    NO_COLOR: '1',
    API_KEY: first.value,
  };
  names = {
    'npx headgate': 'headgate',
    'key-3k9': first.id,
    'https://api.example.net': gateway.ready.api.replace('/v1', ''),
    'FILE --stack STACK --stack-domain example.net': `${join(fleet.dir, 'probe.key')} --stack stk-amber-otter-9k2f`,
    'register pool-1 ': 'register pool-2 ',
    'create pool-1 ': 'create pool-2 ',
    '--data DIR': `--data ${join(fleet.dir, 'gw')}`,
    '/backup/headgate': join(fleet.dir, 'copy'),
    '/var/lib/headgate/cp-1': join(fleet.dir, 'cp'),
    '--log URL --data FOLDER': `--log sqlite:${join(fleet.dir, 'new')} --data ${join(fleet.dir, 'new-cp')}`,
    '2026-11-22T08:00:00Z': new Date().toISOString(),
    '10m': '1s',
    '--from 18000': '--from 2',
    // The page undoes a revocation here, which is impossible. So undo the creation of a stack that has not changed since.
    'undo 18240': `undo ${String(undone['position'])}`,
    '18240': String(revoked['position']),
  };
}, 180_000);
afterAll(() => fleet.close());

/** Replaces longer names first, because they may contain shorter ones. */
function withNames(line: string): string {
  const longerFirst = Object.entries(names).sort(([one], [other]) => other.length - one.length);
  return longerFirst.reduce((text, [from, to]) => text.replaceAll(from, to), line);
}

/** Kills a gateway without notice, so that the line `gateway forget` has a lost gateway to forget. */
async function loseGateway(name: string): Promise<void> {
  const lost = await fleet.serve('gateway', name);
  const isListed = async () =>
    (await fleet.admin(plane).call('GET', '/gateways')).items.some((item) => item.name === name);
  await until(isListed, 60_000);
  await lost.end('SIGKILL');
}

/** Returns the fingerprint of the signer that the commands in the documentation have added. */
async function fingerprint(): Promise<string> {
  // Discards standard error, because notes appear there on a slow machine.
  const { output } = await bash('headgate signer list -o json 2>/dev/null');
  const { items } = JSON.parse(output) as { items: { fingerprint: string }[] };
  expect(items.length, output).toBe(2);
  return items.at(-1)?.fingerprint ?? '';
}

/**
 * Returns the exit codes named in the line's comment. `diff` and `doctor` may also exit with 1, for differences and findings.
 */
function allowedCodes(line: string): number[] {
  if (/^headgate (?:diff|doctor)/.test(line)) return [0, 1];
  const comment = line.split(' # ')[1] ?? line.split('# ')[1] ?? '';
  return [0, ...[...comment.matchAll(/\bexit (\d)/g)].map(([, code]) => Number(code))];
}

test('every block of commands is run, or has a reason why it is not', () => {
  expect(runnable.length).toBeGreaterThanOrEqual(9);
  for (const { page, reason, lines } of blocks)
    if (reason !== undefined) expect(reason.length, `${page}: ${lines[0]}`).toBeGreaterThan(15);
});

test.each(runnable.map((block) => [block.page, block.lines[0] ?? '', block] as const))(
  '%s: %s',
  async (_, __, { lines }) => {
    for (const line of lines) {
      if (line.includes('gateway forget gw-1')) await loseGateway('gw-1');
      const named = withNames(line).replace('KEY-ID', () => keyIds.shift() ?? '');
      const command = named.includes('FINGERPRINT')
        ? named.replace('FINGERPRINT', await fingerprint())
        : named;
      const endless = /\b(?:events|requests) tail\b/.test(command);
      const { code, output } = await bash(endless ? `timeout 5 ${command}` : command);
      expect(endless ? [124, 0] : allowedCodes(line), `${command}\n${output}`).toContain(code);
    }
  },
);
