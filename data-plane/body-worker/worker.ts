/** Worker thread for large bodies. Runs one job at a time, and keeps the texts of requests until they are discarded. */
import type { MessagePort } from 'node:worker_threads';
import { Refusal } from '../../shared/decision/refusal.ts';
import { readTokenCount } from '../../shared/engines/node-answers.ts';
import { parseAnswer } from '../surfaces/common/answer-json.ts';
import type { WholeRequest } from '../surfaces/common/asked.ts';
import { renderBody, renderCount } from '../surfaces/common/node-body.ts';
import { NodeFailure } from '../surfaces/common/node-failure.ts';
import { shapeOperation, wholeAnswer } from '../surfaces/surfaces.ts';
import type { Blocks, BodyJob, BodyResult, BodyWorkerRequest, BodyWorkerResponse } from './messages.ts';
import { toOutline } from './request-outline.ts';

/** Maximum length of an error detail that is sent to the main thread, equal to the limit on a node's error response. */
const detailCharactersMax = 64 * 1024;

const encoder = new TextEncoder();

class JobRunner {
  /** Validated requests whose texts are kept, by the id of the job that validated the request. */
  readonly #retained = new Map<number, WholeRequest>();

  discard(textId: number): void {
    this.#retained.delete(textId);
  }

  /** Runs a job. Never rejects, because every error becomes a result. */
  async run(id: number, job: BodyJob): Promise<BodyResult> {
    try {
      return await this.#run(id, job);
    } catch (error) {
      if (error instanceof Refusal) {
        const { cause, message } = error;
        return { kind: 'refused', cause, message };
      }
      if (error instanceof NodeFailure) {
        const { kind: failure, message, detail } = error;
        return { kind: 'node-failure', failure, message, detail: boundedDetail(detail) };
      }
      return { kind: 'fault', name: error instanceof Error ? error.name : 'Error' };
    }
  }

  async #run(id: number, job: BodyJob): Promise<BodyResult> {
    switch (job.kind) {
      case 'shape': {
        const shaped = shapeOperation(job.operation, joinBlocks(job.blocks), job.headers);
        this.#retained.set(id, shaped.asked);
        return { kind: 'shaped', outline: toOutline(shaped) };
      }
      case 'render': {
        const text = await renderBody(this.#requestOf(job.textId), job.dialect, job.target);
        return { kind: 'rendered', bytes: toBytes(text) };
      }
      case 'render-count': {
        const chat = this.#requestOf(job.textId);
        if (chat.kind !== 'chat') return { kind: 'count-request', countRequest: undefined };
        const rendered = await renderCount(chat, job.dialect, job.served);
        const countRequest = rendered && { path: rendered.path, body: toBytes(rendered.body) };
        return { kind: 'count-request', countRequest };
      }
      case 'rebuild': {
        const { body, ...rest } = wholeAnswer(parseAnswer(joinBlocks(job.blocks)), job.facts, job.form);
        return { kind: 'rebuilt', bytes: toBytes(body), ...rest };
      }
      case 'parse-count':
        return { kind: 'count', tokens: readTokenCount(job.dialect, parseAnswer(joinBlocks(job.blocks))) };
      default:
        return job satisfies never;
    }
  }

  #requestOf(textId: number): WholeRequest {
    const request = this.#retained.get(textId);
    if (request === undefined) throw new Error('the text was discarded');
    return request;
  }
}

/** Runs the jobs that arrive on a port, until the port closes. */
export function serveJobs(port: MessagePort): void {
  const worker = new JobRunner();
  port.on('message', (request: BodyWorkerRequest) => {
    if (request.kind === 'discard') {
      worker.discard(request.textId);
      return;
    }
    const { id, job } = request;
    void worker.run(id, job).then((result) => {
      const response: BodyWorkerResponse = { id, result };
      port.postMessage(response, listTransfers(result));
    });
  });
}

function listTransfers(result: BodyResult): ArrayBuffer[] {
  if (result.kind === 'rendered' || result.kind === 'rebuilt') return [result.bytes.buffer];
  return result.kind === 'count-request' && result.countRequest !== undefined
    ? [result.countRequest.body.buffer]
    : [];
}

function joinBlocks(blocks: Blocks): Buffer {
  const [first] = blocks;
  return blocks.length === 1 && first !== undefined
    ? Buffer.from(first.buffer, first.byteOffset, first.length)
    : Buffer.concat(blocks);
}

/** Encodes a text into a buffer of its own, so that the buffer can be transferred to another thread. */
function toBytes(text: string | Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
  return typeof text === 'string' ? encoder.encode(text) : text;
}

function boundedDetail(detail: unknown): unknown {
  const text = JSON.stringify(detail);
  return text === undefined || text.length > detailCharactersMax ? undefined : detail;
}
