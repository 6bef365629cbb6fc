/**
 * Compares the gateway's own HTTP/1.1 reader with that of `node:http`, in this process. Both must read the same messages with
 * the same fields and bytes, or the gateway's reader must refuse. A refusal by `node:http` alone is a fault.
 */
import type { Note, RunningTarget, Target } from './campaign.ts';
import type { Draw } from './draw.ts';
import { answerBytes, cut, requestBytes } from './http1-bytes.ts';
import {
  answerOfNode,
  type ReadBytes,
  type ReadMessage,
  readAnswer,
  readRequests,
  requestsOfNode,
} from './http1-readers.ts';

interface Pair {
  readonly bytes: (draw: Draw) => Buffer;
  readonly own: (pieces: readonly Buffer[]) => ReadBytes;
  readonly node: (pieces: readonly Buffer[]) => Promise<ReadBytes>;
}

class Http1Target implements RunningTarget {
  readonly workers = 64;
  readonly #pair: Pair;
  #refused = 0;
  #agreed = 0;

  constructor(pair: Pair) {
    this.#pair = pair;
  }

  async tryCase(draw: Draw, note: Note): Promise<string[]> {
    const { bytes: drawBytes, own: readOwn, node: readNode } = this.#pair;
    const bytes = drawBytes(draw);
    note(bytes);
    const own = readOwn([bytes]);
    const inPieces = readOwn(cut(draw, bytes));
    if (JSON.stringify(inPieces) !== JSON.stringify(own)) return ['it depends on the pieces what is read'];
    const node = await readNode(draw.chance(0.5) ? [bytes] : cut(draw, bytes));
    if (own.fault === undefined) this.#agreed++;
    else this.#refused++;
    const fault = differenceOf(own, node);
    return fault === undefined ? [] : [fault];
  }

  faults(): readonly string[] {
    return [];
  }

  async warmedUp(): Promise<void> {
    // Nothing to record, because cases share no state.
  }

  async settle(): Promise<void> {
    // Nothing to wait for, because cases leave nothing behind.
  }

  async close(): Promise<void> {
    // Nothing to close.
  }

  figures(): Record<string, number> {
    return { 'read alike to the end': this.#agreed, refused: this.#refused };
  }
}

function differenceOf(own: ReadBytes, node: ReadBytes): string | undefined {
  const isRefused = own.fault !== undefined && own.fault !== 'cut short';
  const whole = own.messages.filter(({ isWhole }) => isWhole);
  const wholeOfNode = node.messages.filter(({ isWhole }) => isWhole);
  for (const [index, message] of whole.entries()) {
    // `node:http` ignores an upgrade request, but drops the bytes that arrived after it.
    if (index > 0 && asksForUpgrade(whole[index - 1])) return undefined;
    const other = wholeOfNode[index];
    if (other === undefined) return `node:http does not read message ${index}: ${node.fault}`;
    if (textOf(message) !== textOf(other))
      return `message ${index} differs: ${textOf(message)} and ${textOf(other)}`;
  }
  if (isRefused || own.isOver) return undefined;
  if (wholeOfNode.length > whole.length) return `node:http reads more messages, ${own.fault ?? 'no fault'}`;
  return partDifference(own, node);
}

function asksForUpgrade(message: ReadMessage | undefined): boolean {
  return message?.headers['upgrade'] !== undefined && /upgrade/i.test(message.headers['connection'] ?? '');
}

/** Compares incomplete last messages: both readers must report the head and the body bytes received so far. */
function partDifference(own: ReadBytes, node: ReadBytes): string | undefined {
  const part = own.messages.find(({ isWhole }) => !isWhole);
  if (part === undefined || asksForUpgrade(own.messages.at(-2))) return undefined;
  const other = node.messages.find(({ isWhole }) => !isWhole);
  if (other === undefined) return `node:http has no part of the last message: ${node.fault}`;
  return textOf(part) === textOf(other)
    ? undefined
    : `the last part differs: ${textOf(part)} and ${textOf(other)}`;
}

function textOf({ line, version, fields, headers, body }: ReadMessage): string {
  const sorted = Object.entries(headers).sort(([one], [other]) => (one < other ? -1 : 1));
  return JSON.stringify({ line, version, fields, sorted, body });
}

export const http1Target: Target = {
  name: 'http1',
  start: async () => new Http1Target({ bytes: requestBytes, own: readRequests, node: requestsOfNode }),
};

export const http1AnswersTarget: Target = {
  name: 'http1-answers',
  start: async () => new Http1Target({ bytes: answerBytes, own: readAnswer, node: answerOfNode }),
};
