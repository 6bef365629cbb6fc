/**
 * Generates the bytes that a hostile agent sends: an upgrade, then valid and invalid WebSocket frames. The frames are made by
 * hand, because libraries cannot send invalid ones.
 */
import { agentMessageSchema } from '../../schemas/records/node-messages.ts';
import type { Draw, Json } from './draw.ts';
import { canary } from './fleet.ts';
import { jsonText, mutateBytes, mutateJson } from './mutate.ts';
import { valueFor } from './schema-draw.ts';

interface FrameOptions {
  readonly opcode: number;
  readonly fin?: boolean;
  readonly reserved?: number;
  readonly masked?: boolean;
  /** Length to claim in the frame's header instead of the payload's real length. */
  readonly length?: number;
}

function frame(draw: Draw, payload: Uint8Array, options: FrameOptions): Buffer {
  const { opcode, fin = true, reserved = 0, masked = true, length = payload.length } = options;
  const first = (fin ? 0x80 : 0) | (reserved << 4) | opcode;
  const mask = masked ? 0x80 : 0;
  const header = sizeBytes(first, mask, length);
  if (!masked) return Buffer.concat([header, payload]);
  const key = draw.bytes(4);
  return Buffer.concat([header, key, payload.map((byte, index) => byte ^ (key[index % 4] ?? 0))]);
}

function sizeBytes(first: number, mask: number, length: number): Buffer {
  if (length < 126) return Buffer.from([first, mask | length]);
  if (length < 65_536) return Buffer.from([first, mask | 126, length >> 8, length & 255]);
  const header = Buffer.alloc(10);
  header[0] = first;
  header[1] = mask | 127;
  header.writeBigUInt64BE(BigInt(length), 2);
  return header;
}

const textOf = (draw: Draw, value: Json): Buffer =>
  frame(draw, Buffer.from(draw.chance(0.9) ? JSON.stringify(value) : jsonText(draw, value)), { opcode: 1 });

function message(draw: Draw, node: string): Json {
  const hello: Json = { type: 'hello', v: 1, node };
  const models = draw.list(draw.skewed(20), () => draw.pick(['echo-small', 'echo-large', draw.word()]));
  const heartbeat: Json = { type: 'beat', up: draw.chance(0.8), models, inFlight: draw.below(5) };
  return draw.weighted<() => Json>([
    [3, () => hello],
    [8, () => heartbeat],
    [3, () => valueFor({ draw, opaque: () => undefined, optional: 0.6 }, agentMessageSchema)],
    [1, () => ({ type: 'leaving' })],
    [2, () => mutateJson(draw, draw.pick([hello, heartbeat]), 0.9)],
    [1, () => ({ ...(heartbeat as object), models: Array.from({ length: draw.skewed(20_000) }, () => 'm') })],
    [1, () => ({ ...(heartbeat as object), reason: draw.text() })],
    [1, () => ({ type: canary, v: 1 })],
    [1, () => draw.json()],
  ])();
}

function oddFrame(draw: Draw, node: string): Buffer {
  const payload = Buffer.from(JSON.stringify(message(draw, node)));
  const any = draw.bytes(draw.skewed(300));
  return draw.weighted<() => Buffer>([
    [2, () => frame(draw, payload, { opcode: 2 })],
    [2, () => fragments(draw, payload)],
    [1, () => frame(draw, payload, { opcode: 1, masked: false })],
    [1, () => frame(draw, payload, { opcode: 1, reserved: draw.between(1, 7) })],
    [1, () => frame(draw, any, { opcode: draw.between(3, 15), fin: draw.chance(0.5) })],
    [2, () => frame(draw, any.subarray(0, 125), { opcode: draw.pick([8, 9, 10]) })],
    [1, () => frame(draw, any, { opcode: 8, length: draw.below(3) })],
    [1, () => frame(draw, Buffer.from([3, 0xe8 + draw.below(30), 0xff]), { opcode: 8 })],
    [1, () => frame(draw, any, { opcode: 1 })],
    [
      1,
      () => frame(draw, payload, { opcode: 1, length: draw.pick([2 ** 31, 2 ** 53, 600_000, 126, 65_536]) }),
    ],
    [1, () => frame(draw, Buffer.alloc(draw.pick([524_288, 524_289, 700_000]), 'a'), { opcode: 1 })],
    [1, () => frame(draw, Buffer.alloc(0), { opcode: 0 })],
    [1, () => any],
  ])();
}

function fragments(draw: Draw, payload: Buffer): Buffer {
  const pieces = draw.pieces(payload, draw.between(2, 200));
  return Buffer.concat(
    pieces.map((piece, index) =>
      frame(draw, piece, {
        opcode: index === 0 ? 1 : draw.chance(0.98) ? 0 : 1,
        fin: index === pieces.length - 1,
      }),
    ),
  );
}

function upgrade(draw: Draw, token: string): string {
  const lines = [
    `GET /nodes/v1/connect${draw.chance(0.05) ? draw.pick(['?', '/', '%', '?token=x']) : ''} HTTP/1.1`,
    'Host: 127.0.0.1',
    'Connection: Upgrade',
    `Upgrade: ${draw.chance(0.97) ? 'websocket' : draw.pick(['h2c', 'WebSocket/13', ''])}`,
    `Sec-WebSocket-Key: ${draw.chance(0.97) ? 'dGhlIHNhbXBsZSBub25jZQ==' : draw.pick(['x', '', 'é'])}`,
    `Sec-WebSocket-Version: ${draw.chance(0.97) ? '13' : draw.pick(['8', '99', '', '13, 13'])}`,
  ];
  if (draw.chance(0.95)) lines.push(`Authorization: Bearer ${token}${draw.chance(0.05) ? draw.word() : ''}`);
  if (draw.chance(0.05))
    lines.push(
      draw.pick([
        'Origin: http://evil.test',
        'Sec-WebSocket-Protocol: a, b',
        'Expect: 100-continue',
        'Content-Length: 5',
        'Transfer-Encoding: chunked',
      ]),
    );
  if (draw.chance(0.2)) lines.push('Sec-WebSocket-Extensions: permessage-deflate');
  return `${lines.join('\r\n')}\r\n\r\n`;
}

/** Returns valid heartbeats or pings, far more of them than a session may send. */
function flood(draw: Draw): Buffer[] {
  const heartbeat = { type: 'beat', up: true, models: ['echo-small'] };
  const isPing = draw.chance(0.3);
  return draw.list(draw.between(30, 400), () =>
    isPing ? frame(draw, Buffer.from('ping'), { opcode: 9 }) : textOf(draw, heartbeat),
  );
}

/** Returns the upgrade and the frames, one piece each. In a tenth of the cases the frames are joined and mutated. */
export function agentPieces(draw: Draw, node: string, token: string): Buffer[] {
  const pieces: Buffer[] = [Buffer.from(upgrade(draw, token), 'latin1')];
  if (draw.chance(0.85)) pieces.push(textOf(draw, { type: 'hello', v: 1, node }));
  if (draw.chance(0.08)) return [...pieces, ...flood(draw)];
  const count = draw.chance(0.1) ? draw.between(30, 300) : draw.below(8);
  const odds = draw.pick([0, 0.2, 0.6]);
  for (let index = 0; index < count; index++)
    pieces.push(draw.chance(odds) ? oddFrame(draw, node) : textOf(draw, message(draw, node)));
  if (draw.chance(0.9)) return pieces;
  const [head = Buffer.alloc(0), ...frames] = pieces;
  return [head, mutateBytes(draw, Buffer.concat(frames))];
}

export interface ServerFrame {
  readonly opcode: number;
  readonly payload: Buffer;
}

/**
 * Parses the server's frames after its response head, or describes what is wrong with them. Ignores a last frame that was cut
 * off.
 */
export function serverFrames(bytes: Buffer): readonly ServerFrame[] | string {
  const frames: ServerFrame[] = [];
  let at = 0;
  while (at + 2 <= bytes.length) {
    const first = bytes[at] ?? 0;
    const second = bytes[at + 1] ?? 0;
    if ((first & 0x70) !== 0) return 'a frame has reserved bits';
    if ((second & 0x80) !== 0) return 'a frame of the server is masked';
    const short = second & 0x7f;
    const sizeLength = short === 126 ? 2 : short === 127 ? 8 : 0;
    if (at + 2 + sizeLength > bytes.length) break;
    const length =
      sizeLength === 0 ? short : Number.parseInt(bytes.toString('hex', at + 2, at + 2 + sizeLength), 16);
    const from = at + 2 + sizeLength;
    if (from + length > bytes.length) break;
    frames.push({ opcode: first & 0x0f, payload: bytes.subarray(from, from + length) });
    at = from + length;
  }
  return frames;
}
