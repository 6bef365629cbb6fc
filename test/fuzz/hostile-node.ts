/**
 * An inference server that answers each inference with raw bytes planned by the fuzz case that sent it, and answers probes
 * like a healthy node. It supports only minimal HTTP: one request after another, each with a content length.
 */

import type { AddressInfo } from 'node:net';
import { createServer, type Server, type Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';

/** The bytes to answer with, and how to send them. */
export interface NodePlan {
  readonly pieces: readonly Buffer[];
  readonly pauseMs: number;
  /** A piece that is sent after all other pieces, repeatedly, up to `times` times or until the gateway disconnects. */
  readonly endless?: { readonly piece: Buffer; readonly times: number };
  readonly end: 'keep' | 'close' | 'reset' | 'hang';
}

/** Returns the text by which the node recognises the fuzz case that sent a prompt. */
export function caseMark(number: number): string {
  return `case-${number}-mark`;
}

/** Longest time for which an idle connection from the gateway stays open, in ms. */
const hangMsMax = 8000;

export class HostileNode {
  readonly #server: Server;
  readonly #models: readonly string[];
  readonly #reranks: boolean;
  readonly #plans = new Map<number, NodePlan>();
  readonly #sockets = new Set<Socket>();
  #asked = 0;

  private constructor(models: readonly string[], reranks: boolean) {
    this.#models = models;
    this.#reranks = reranks;
    this.#server = createServer((socket) => this.#serve(socket));
  }

  static async start(models: readonly string[], reranks = false): Promise<HostileNode> {
    const node = new HostileNode(models, reranks);
    await new Promise<void>((resolve) => node.#server.listen(0, '127.0.0.1', resolve));
    return node;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Number of inferences that reached this node. */
  get asked(): number {
    return this.#asked;
  }

  plan(number: number, plan: NodePlan): void {
    this.#plans.set(number, plan);
  }

  forget(number: number): void {
    this.#plans.delete(number);
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #serve(socket: Socket): void {
    let held = Buffer.alloc(0);
    let answering: Promise<void> = Promise.resolve();
    this.#sockets.add(socket);
    socket.setNoDelay(true);
    socket.on('error', () => socket.destroy());
    socket.on('close', () => this.#sockets.delete(socket));
    socket.on('data', (chunk: Buffer) => {
      held = Buffer.concat([held, chunk]);
      for (;;) {
        const end = held.indexOf('\r\n\r\n');
        if (end === -1) return;
        const head = held.toString('latin1', 0, end);
        const length = Number(/^content-length: *(\d+)/im.exec(head)?.[1] ?? 0);
        if (held.length < end + 4 + length) return;
        const body = held.toString('utf8', end + 4, end + 4 + length);
        held = held.subarray(end + 4 + length);
        answering = answering.then(() => this.#answer(socket, head, body));
      }
    });
  }

  async #answer(socket: Socket, head: string, body: string): Promise<void> {
    const number = /case-(\d+)-mark/.exec(body)?.[1];
    const plan = number === undefined ? undefined : this.#plans.get(Number(number));
    if (plan === undefined) {
      socket.write(this.#healthy(head));
      return;
    }
    this.#asked++;
    await deliver(socket, plan);
  }

  #healthy(head: string): string {
    const list = {
      object: 'list',
      data: this.#models.map((id) => ({ id, object: 'model', max_model_len: 131_072 })),
    };
    const body = head.includes('/v1/models') ? JSON.stringify(list) : '{"count":7}';
    return `HTTP/1.1 ${this.#statusOf(head)} x\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
  }

  /** Returns the status of a probe. A node that only reranks answers as vLLM does in this mode. */
  #statusOf(head: string): number {
    if (!this.#reranks) return 200;
    if (head.startsWith('GET /v1/rerank ')) return 405;
    return /^GET \/v1\/(embeddings|chat\/completions) /.test(head) ? 404 : 200;
  }
}

async function deliver(socket: Socket, { pieces, pauseMs, endless, end }: NodePlan): Promise<void> {
  for (const piece of pieces) {
    if (socket.destroyed) return;
    socket.write(piece);
    if (pauseMs > 0) await pause(pauseMs);
  }
  for (let time = 0; time < (endless?.times ?? 0) && !socket.destroyed; time++) {
    if (!socket.write(endless?.piece ?? ''))
      await new Promise((resolve) => socket.once('drain', resolve).once('close', resolve));
    await pause(2);
  }
  if (end === 'close') socket.end();
  else if (end === 'reset') socket.resetAndDestroy();
  else if (end === 'hang') setTimeout(() => socket.destroy(), hangMsMax).unref();
}
