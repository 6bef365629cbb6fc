/** Requests that stay in flight until the test releases them, because their node has stalled and does not answer. */
import { connect, type Socket } from 'node:net';
import { vi } from 'vitest';
import type { FaultyNode } from '../simulator/faulty-node.ts';
import { chatBody } from './api.ts';
import { requestText } from './raw-http.ts';
import { inferences } from './witness.ts';

export interface Held {
  /** Closes the client's connection without waiting for an answer. */
  leave(): void;
  readonly received: () => string;
  /** Resolves once either side has ended the connection. */
  readonly closed: Promise<void>;
}

export interface HeldRequest {
  readonly port: number;
  readonly key: string;
  readonly model: string;
  readonly host?: string;
  /** Path of the request. Defaults to the chat completions path. */
  readonly path?: string;
  readonly more?: Readonly<Record<string, unknown>>;
  /** Node that must have received the request before it counts as held. */
  readonly at: FaultyNode;
}

/** Sends a request and resolves once its node is processing it. */
export async function hold(request: HeldRequest): Promise<Held> {
  const { port, key, model, host, path = '/v1/chat/completions', more, at } = request;
  const before = inferences(at);
  const { socket, received } = open(
    port,
    requestText({
      method: 'POST',
      path,
      ...(host !== undefined && { host }),
      headers: { Authorization: `Bearer ${key}` },
      body: JSON.stringify(chatBody(model, more)),
    }),
  );
  const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()));
  await vi.waitUntil(() => inferences(at) > before, { timeout: 10_000, interval: 2 });
  return { leave: () => socket.destroy(), received, closed };
}

function open(port: number, text: string): { socket: Socket; received: () => string } {
  let received = '';
  const socket = connect(port, '127.0.0.1', () => socket.write(text));
  socket.on('data', (chunk) => {
    received += chunk.toString('latin1');
  });
  socket.on('error', () => undefined);
  return { socket, received: () => received };
}
