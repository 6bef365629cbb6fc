/**
 * The desk of shaping: does the jobs whose cost goes by the size of a body, one after another, and holds the texts of
 * requests until they are dropped. It runs on a thread of its own, so that no body keeps other requests waiting.
 */
import type { MessagePort } from 'node:worker_threads';
import { tokenCountOf } from '../../shared/dialect/node-answers.ts';
import { renderBody, renderCount } from '../dialect/render-body.ts';
import { Refusal } from '../request/refusal.ts';
import type { ChatRequest, EmbeddingsRequest } from '../request/shape.ts';
import { shapeOperation } from '../request/shape-operation.ts';
import { parseAnswer } from '../response/answer-json.ts';
import { NodeFailure } from '../response/node-failure.ts';
import { rebuild } from '../response/rebuild.ts';
import type { Blocks, ShapingAnswer, ShapingJob, ShapingRequest, ShapingResult } from './messages.ts';
import { outline } from './outlined.ts';

/** Of an error that a node wrote into a large answer, no more is looked at than of one that is an error alone. */
const detailCharactersMax = 64 * 1024;

const encoder = new TextEncoder();

export class ShapingDesk {
  /** By the job that shaped them. */
  readonly #held = new Map<number, ChatRequest | EmbeddingsRequest>();

  drop(held: number): void {
    this.#held.delete(held);
  }

  /** Never throws. */
  async do(id: number, job: ShapingJob): Promise<ShapingResult> {
    try {
      return await this.#do(id, job);
    } catch (error) {
      if (error instanceof Refusal) {
        const { type, message, reason } = error;
        return { kind: 'refused', type, message, reason };
      }
      if (error instanceof NodeFailure) {
        const { kind: failure, message, detail } = error;
        return { kind: 'node-failure', failure, message, detail: boundedDetail(detail) };
      }
      return { kind: 'fault', name: error instanceof Error ? error.name : 'Error' };
    }
  }

  async #do(id: number, job: ShapingJob): Promise<ShapingResult> {
    switch (job.kind) {
      case 'shape': {
        const shaped = shapeOperation(job.operation, wholeOf(job.blocks), job.headers);
        this.#held.set(id, shaped.inner);
        return { kind: 'shaped', outlined: outline(shaped) };
      }
      case 'render': {
        const text = await renderBody(this.#textOf(job.held), job.dialect, job.target);
        return { kind: 'rendered', bytes: bytesOf(text) };
      }
      case 'question': {
        const chat = this.#textOf(job.held);
        if (chat.kind !== 'chat') return { kind: 'question', question: undefined };
        const asked = await renderCount(chat, job.dialect, job.served);
        const question = asked && { path: asked.path, body: bytesOf(asked.body) };
        return { kind: 'question', question };
      }
      case 'rebuild': {
        const { body, usage } = rebuild(parseAnswer(wholeOf(job.blocks)), job.rebuilding);
        return { kind: 'rebuilt', bytes: bytesOf(JSON.stringify(body)), usage };
      }
      case 'count':
        return { kind: 'counted', tokens: tokenCountOf(job.dialect, parseAnswer(wholeOf(job.blocks))) };
      default:
        return job satisfies never;
    }
  }

  #textOf(held: number): ChatRequest | EmbeddingsRequest {
    const request = this.#held.get(held);
    if (request === undefined) throw new Error('the text was dropped');
    return request;
  }
}

/** Serves a port for as long as it is open. */
export function serveShaping(port: MessagePort): void {
  const desk = new ShapingDesk();
  port.on('message', (request: ShapingRequest) => {
    if (request.kind === 'drop') {
      desk.drop(request.held);
      return;
    }
    const { id, job } = request;
    void desk.do(id, job).then((result) => {
      const answer: ShapingAnswer = { id, result };
      port.postMessage(answer, transferOf(result));
    });
  });
}

function transferOf(result: ShapingResult): ArrayBuffer[] {
  if (result.kind === 'rendered' || result.kind === 'rebuilt') return [result.bytes.buffer];
  return result.kind === 'question' && result.question !== undefined ? [result.question.body.buffer] : [];
}

function wholeOf(blocks: Blocks): Buffer {
  const [first] = blocks;
  return blocks.length === 1 && first !== undefined
    ? Buffer.from(first.buffer, first.byteOffset, first.length)
    : Buffer.concat(blocks);
}

/** With memory of its own, so that it can be handed over. */
function bytesOf(text: string | Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
  return typeof text === 'string' ? encoder.encode(text) : text;
}

function boundedDetail(detail: unknown): unknown {
  const text = JSON.stringify(detail);
  return text === undefined || text.length > detailCharactersMax ? undefined : detail;
}
