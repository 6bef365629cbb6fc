/** Stops a process as if its machine had frozen. */
import type { ChildProcess } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const freezeMaxMs = 10_000;

/**
 * Stops the process and returns once every thread has stopped or ended, because on a busy machine a process may still answer
 * after the signal.
 */
export function freeze(broker: ChildProcess | undefined): void {
  if (broker?.kill('SIGSTOP') !== true) return;
  const threads = `/proc/${broker.pid}/task`;
  if (!existsSync('/proc/self/task')) return;
  const untilMs = performance.now() + freezeMaxMs;
  while (!readNow(() => readdirSync(threads), []).every((thread) => isStopped(join(threads, thread, 'stat'))))
    if (performance.now() > untilMs) throw new Error(`Kafka was not stopped in ${freezeMaxMs} ms`);
}

function isStopped(file: string): boolean {
  const state = readNow(() => readFileSync(file, 'utf8'), '')
    .split(') ')
    .at(-1)
    ?.charAt(0);
  return ['', 'T', 'Z', 'X'].includes(state ?? '');
}

/** Reads the process table. Returns `gone` for a process or thread that no longer exists. */
function readNow<Value>(read: () => Value, gone: Value): Value {
  try {
    return read();
  } catch (error) {
    if (['ENOENT', 'ESRCH'].includes((error as NodeJS.ErrnoException).code ?? '')) return gone;
    throw error;
  }
}
