/** Stops a process as a machine that hangs does. */
import type { ChildProcess } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const freezeMaxMs = 10_000;

/** Returns once every thread of it is stopped or gone; on a busy machine it may still answer for a while after the signal. */
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

/** What the process table says, or what stands for a process or thread that is gone. */
function readNow<Value>(read: () => Value, gone: Value): Value {
  try {
    return read();
  } catch (error) {
    if (['ENOENT', 'ESRCH'].includes((error as NodeJS.ErrnoException).code ?? '')) return gone;
    throw error;
  }
}
