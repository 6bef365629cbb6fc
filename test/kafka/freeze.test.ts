import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { freeze } from './freeze.ts';

const start = () => spawn('sleep', ['60'], { stdio: 'ignore' });

test.skipIf(process.platform !== 'linux')('a process has stopped when freeze returns', async () => {
  const child = start();
  const exited = once(child, 'exit');
  freeze(child);
  expect(readFileSync(`/proc/${child.pid}/stat`, 'utf8')).toContain(') T ');
  child.kill('SIGKILL');
  await exited;
});

test('a process that has ended is not waited for, even before its exit is read', async () => {
  const child = start();
  const exited = once(child, 'exit');
  child.kill('SIGKILL');
  freeze(child);
  await exited;
  expect(child.signalCode).toBe('SIGKILL');
  const beganMs = performance.now();
  freeze(child);
  expect(performance.now() - beganMs).toBeLessThan(1000);
});
