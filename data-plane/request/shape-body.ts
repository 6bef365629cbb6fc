/**
 * Parses and validates the body of a request. Small bodies are parsed on the main thread. Large ones are parsed by the body
 * worker, which then keeps their text, so that the main thread never handles a large body.
 */
import type { Dialect } from '../../schemas/names.ts';
import type { Operation } from '../../shared/decision/admission.ts';
import type { BodyWorker, JobOptions } from '../body-worker/body-worker.ts';
import { withText } from '../body-worker/request-outline.ts';
import type { WorkerHandle } from '../body-worker/start-worker.ts';
import { oneHeader } from '../http/answers.ts';
import type { Body } from '../http/body.ts';
import type { Exchange } from '../http/exchange.ts';
import type { ReadableBody } from '../nodes/forward.ts';
import type { CountRequest, NodeTarget, WorkerText } from '../surfaces/common/asked.ts';
import { refuseOtherThanJson } from '../surfaces/common/json-body.ts';
import { readJsonText } from '../surfaces/common/json-text.ts';
import type { ShapeHeaders } from '../surfaces/common/surface.ts';
import type { TenantSecrets } from '../surfaces/common/tenant-secrets.ts';
import { shapeOperation, type ValidRequest } from '../surfaces/surfaces.ts';

/** Bounds on bodies that are parsed on the main thread. They keep it from being blocked for longer than about 20 ms. */
const inlineBytesMax = 256 * 1024;
const inlineNamesMax = 2_000;
const inlineValuesMax = 10_000;

export interface BodyToShape {
  readonly operation: Operation;
  readonly body: Body;
  /** Organisation or visitor on whose behalf the body worker queues the work. */
  readonly owner: string;
  readonly exchange: Pick<Exchange, 'head' | 'gone'>;
  /** Keys for encrypting reasoning, by organisation. Only the Responses API uses them. */
  readonly sealKeys: TenantSecrets;
}

/** A parsed body. Text that the body worker keeps counts as used memory until `release`, even after `discard`. */
export interface ShapedBody extends ReadableBody {
  readonly shaped: ValidRequest;
}

/** Parses a body. A small body's memory is released at once, a large one's later. Rejects with `Refusal` or `ClientGone`. */
export function shapeBody(bodyWorker: BodyWorker, task: BodyToShape): ShapedBody | Promise<ShapedBody> {
  let shaped: ValidRequest | undefined;
  try {
    shaped = shapeInline(task);
  } catch (error) {
    task.body.release();
    throw error;
  }
  if (shaped === undefined) return shapeOnWorker(bodyWorker, task);
  task.body.release();
  return new InlineBody(shaped);
}

/** Body that was parsed on the main thread, so no worker keeps its text. */
class InlineBody implements ShapedBody {
  readonly shaped: ValidRequest;

  constructor(shaped: ValidRequest) {
    this.shaped = shaped;
  }

  discard(): void {
    const { asked } = this.shaped;
    if (asked.kind === 'chat' && asked.workerText === undefined && asked.source !== undefined)
      asked.source.messages = undefined;
  }

  release(): void {
    // Nothing to release, because the memory of a small body was released when the body had been parsed.
  }
}

/** Parses a body on the main thread. Returns undefined if that would block the event loop for too long. */
function shapeInline(task: BodyToShape): ValidRequest | undefined {
  const { operation, body } = task;
  if (body.bytes.length > inlineBytesMax) return undefined;
  const headers = pickHeaders(task);
  refuseOtherThanJson(headers.contentType);
  const text = readJsonText(body.bytes.whole());
  const { names, values } = text.counts;
  if (names > inlineNamesMax || values > inlineValuesMax) return undefined;
  return shapeOperation(operation, text, headers);
}

async function shapeOnWorker(bodyWorker: BodyWorker, task: BodyToShape): Promise<ShapedBody> {
  try {
    return await retainOnWorker(bodyWorker, task);
  } catch (error) {
    task.body.release();
    throw error;
  }
}

async function retainOnWorker(bodyWorker: BodyWorker, task: BodyToShape): Promise<ShapedBody> {
  const { operation, body, owner, exchange } = task;
  const headers = pickHeaders(task);
  const options: JobOptions = { owner, signal: exchange.gone };
  const blocks = body.bytes.detach();
  const { outline, textId, worker } = await bodyWorker.retain(
    { kind: 'shape', operation, headers, blocks },
    options,
  );
  let isRetained = true;
  const discard = (): void => {
    if (!isRetained) return;
    isRetained = false;
    bodyWorker.discard(textId, worker);
  };
  return {
    shaped: withText(outline, new TextOnWorker(bodyWorker, { ...options, worker }, textId)),
    discard,
    release: () => {
      discard();
      body.release();
    },
  };
}

function pickHeaders({ exchange: { head }, operation, owner, sealKeys }: BodyToShape): ShapeHeaders {
  return {
    contentType: head.headers['content-type'],
    version: oneHeader(head, 'anthropic-version'),
    sealKey: operation.kind === 'responses' ? sealKeys.of(owner) : undefined,
  };
}

class TextOnWorker implements WorkerText {
  readonly #bodyWorker: BodyWorker;
  readonly #options: JobOptions & { readonly worker: WorkerHandle };
  readonly #textId: number;

  constructor(
    bodyWorker: BodyWorker,
    options: JobOptions & { readonly worker: WorkerHandle },
    textId: number,
  ) {
    this.#bodyWorker = bodyWorker;
    this.#options = options;
    this.#textId = textId;
  }

  async nodeBody(dialect: Dialect, target: NodeTarget): Promise<Uint8Array<ArrayBuffer>> {
    const job = { kind: 'render', textId: this.#textId, dialect, target } as const;
    return (await this.#bodyWorker.run(job, 'rendered', this.#options)).bytes;
  }

  async countRequest(dialect: Dialect, served: string): Promise<CountRequest | undefined> {
    const job = { kind: 'render-count', textId: this.#textId, dialect, served } as const;
    return (await this.#bodyWorker.run(job, 'count-request', this.#options)).countRequest;
  }
}
