/** The raw connection of a fuzz case. It sends bytes in pieces, ends in one of several ways, and collects the answer. */
import { connect, type Socket } from 'node:net';
import { setTimeout as pause, setImmediate as turn } from 'node:timers/promises';
import { connect as connectTls } from 'node:tls';
import type { Draw } from './draw.ts';

export interface Address {
  readonly host: string;
  readonly port: number;
  readonly tls: boolean;
}

/** The bytes that a client sends and how it leaves: after its last byte, or with a reset or close after `endAfter` pieces. */
export interface Delivery {
  readonly pieces: readonly Buffer[];
  readonly pauseMs: number;
  readonly end: 'half-close' | 'reset' | 'destroy' | 'wait';
  /** Number of pieces to send before the reset or close. */
  readonly endAfter: number;
}

export interface PeerAnswer {
  /** Received bytes as latin1 text. */
  readonly text: string;
  /** True if the peer or an error cut the connection. */
  readonly reset: boolean;
  /** True if the connection did not end in time. */
  readonly late: boolean;
}

/** Time without further bytes after which a client that waits for more than one answer leaves, in ms. */
const silenceMs = 400;
const exchangeMsMax = 10_000;

export function drawDelivery(draw: Draw, bytes: Buffer): Delivery {
  const count = draw.weighted<() => number>([
    [6, () => 1],
    [3, () => draw.between(2, 6)],
    [1, () => Math.min(bytes.length, 60)],
  ])();
  const pieces = bytes.length === 0 ? [] : draw.pieces(bytes, count);
  const end = draw.weighted([
    [6, 'half-close'],
    [3, 'reset'],
    [1, 'destroy'],
    [1, 'wait'],
  ] as const);
  const leaves = end === 'reset' || end === 'destroy';
  return {
    pieces,
    pauseMs: draw.below(3),
    end,
    endAfter: leaves ? draw.below(pieces.length + 1) : pieces.length,
  };
}

export function exchange(address: Address, delivery: Delivery): Promise<PeerAnswer> {
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    let reset = false;
    let late = false;
    const { host, port } = address;
    const raw = connect({ host, port });
    const socket: Socket = address.tls ? connectTls({ socket: raw, rejectUnauthorized: false }) : raw;
    const done = (): void => {
      clearTimeout(timer);
      socket.destroy();
      raw.destroy();
      resolve({ text: Buffer.concat(chunks).toString('latin1'), reset, late });
    };
    const timer = setTimeout(() => {
      late = true;
      done();
    }, exchangeMsMax);
    const failed = (): void => {
      reset = true;
      raw.destroy();
    };
    raw.on('error', failed);
    if (socket !== raw) socket.on('error', failed).on('close', done);
    socket.on('data', (chunk) => chunks.push(chunk));
    raw.on('close', done);
    raw.on('connect', () => void deliver(socket, raw, delivery));
  });
}

async function deliver(
  socket: Socket,
  raw: Socket,
  { pieces, pauseMs, end, endAfter }: Delivery,
): Promise<void> {
  for (const piece of pieces.slice(0, endAfter)) {
    if (socket.destroyed || raw.destroyed) return;
    socket.write(piece);
    if (pauseMs > 0) await pause(pauseMs);
    else await turn();
  }
  if (end === 'reset') raw.resetAndDestroy();
  else if (end === 'destroy') raw.destroy();
  else if (end === 'half-close') socket.end();
  else raw.setTimeout(silenceMs, () => raw.destroy());
}
