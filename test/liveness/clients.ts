/** Long-lived clients of a control plane, as processes and as raw connections, and checks of a replica that lost its log. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { expect, vi } from 'vitest';
import { WebSocket } from 'ws';
import type { Launch } from '../support/processes.ts';

const binary = new URL('../../dist/cli/headgate.js', import.meta.url).pathname;
/**
 * Longest wait for a response, in ms. A process stuck in a loop never answers, but a slow process on a busy machine answers
 * within this time.
 */
const answerMs = 10_000;

export interface Replica {
  readonly admin: string;
  readonly metrics: string;
}

export class CliProcess {
  readonly child: ChildProcess;
  stdout = '';
  stderr = '';
  readonly #ended: Promise<unknown>;

  constructor(args: readonly string[], env: Readonly<Record<string, string>>) {
    this.child = spawn(process.execPath, [binary, ...args], {
      env: { ...process.env, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.child.stdout?.on('data', (chunk: Buffer) => {
      this.stdout += chunk.toString();
    });
    this.child.stderr?.on('data', (chunk: Buffer) => {
      this.stderr += chunk.toString();
    });
    this.#ended = once(this.child, 'close');
  }

  async exitCode(): Promise<number | null> {
    await this.#ended;
    return this.child.exitCode;
  }

  async interrupt(): Promise<number | null> {
    this.child.kill('SIGINT');
    return this.exitCode();
  }
}

export interface TailEnd {
  readonly code: number;
  readonly reason: string;
}

/** Opens an event stream over a raw WebSocket. Resolves once the stream is open, with a promise that settles when it ends. */
export async function rawTail(
  replica: Replica,
  token: string,
): Promise<{ ended: Promise<TailEnd>; frames: string[] }> {
  const url = `${replica.admin.replace(/^http/, 'ws')}/admin/v1/events/stream?from=1`;
  const socket = new WebSocket(url, { headers: { authorization: `Bearer ${token}` } });
  const frames: string[] = [];
  socket.on('message', (data) => frames.push(String(data)));
  const ended = new Promise<TailEnd>((resolve) => {
    socket.on('close', (code, reason) => resolve({ code, reason: String(reason) }));
  });
  socket.on('error', () => undefined);
  await once(socket, 'open');
  return { ended, frames };
}

export async function health(metrics: string, path: string): Promise<{ status: number; text: string }> {
  const response = await fetch(`${metrics}${path}`, { signal: AbortSignal.timeout(answerMs) });
  return { status: response.status, text: await response.text() };
}

/** Checks that the process is alive but not ready, and that it reports the given reason. */
export async function isFaulted({ metrics }: Replica, reason: RegExp): Promise<void> {
  await vi.waitFor(
    async () => {
      expect((await health(metrics, '/livez')).status).toBe(200);
      const ready = await health(metrics, '/readyz');
      expect(ready.status).toBe(503);
      expect(ready.text).toMatch(reason);
    },
    { timeout: 20_000, interval: 100 },
  );
}

/** Checks that SIGTERM ends the process cleanly. The test's own time limit bounds the wait. */
export async function endsInOrder(process: Launch<unknown>): Promise<void> {
  await process.end('SIGTERM');
  expect([process.child.exitCode, process.child.signalCode]).toEqual([0, null]);
}
