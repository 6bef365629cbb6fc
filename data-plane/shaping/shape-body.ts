/**
 * A body becomes a request: on this thread where that is quickly done, which goes by its bytes, names and values; else on
 * the thread of shaping, which keeps the text, so that nothing as large as the body is ever looked at here.
 */
import type { ServerResponse } from 'node:http';
import type { Dialect } from '../../schemas/names.ts';
import type { NodeTarget } from '../dialect/to-node-body.ts';
import { type Body, ClientGone } from '../request/body.ts';
import { oneHeader } from '../request/http-request.ts';
import { readJsonText } from '../request/json-text.ts';
import type { Operation } from '../request/operation.ts';
import type { CountQuestion, HeldText } from '../request/outline.ts';
import { refuseOtherThanJson } from '../request/shape.ts';
import { type Shaped, type ShapeHeaders, shapeOperation } from '../request/shape-operation.ts';
import { withText } from './outlined.ts';
import type { JobOptions, Shaping } from './shaping.ts';
import type { Thread } from './thread.ts';

/** What is done on this thread takes some 20 ms at the very most. */
const hereBytesMax = 256 * 1024;
const hereNamesMax = 2_000;
const hereValuesMax = 10_000;

export interface BodyToShape {
  readonly operation: Operation;
  readonly body: Body;
  /** Whose body it is; owners take turns. */
  readonly owner: string;
  /** Of the request whose body it is. Its client is gone when this closes. */
  readonly response: ServerResponse;
}

export interface ShapedBody {
  readonly shaped: Shaped;
  /** The text is not needed any more, or not here. Again is harmless. */
  release(): void;
}

/** Throws UnsupportedShapeError naming the JSON path, InferenceUnavailableError, or ClientGone. Releases the body itself. */
export async function shapeBody(shaping: Shaping, task: BodyToShape): Promise<ShapedBody> {
  try {
    const here = shapeHere(task);
    if (here === undefined) return await shapeThere(shaping, task);
    task.body.release();
    return { shaped: here, release: () => undefined };
  } catch (error) {
    task.body.release();
    throw error;
  }
}

/** Undefined where it would take too long. */
function shapeHere({ operation, body, response }: BodyToShape): Shaped | undefined {
  if (body.bytes.length > hereBytesMax) return undefined;
  const headers = headersOf(response);
  refuseOtherThanJson(headers.contentType);
  const text = readJsonText(body.bytes.whole());
  const { names, values } = text.counts;
  if (names > hereNamesMax || values > hereValuesMax) return undefined;
  return shapeOperation(operation, text, headers);
}

async function shapeThere(shaping: Shaping, task: BodyToShape): Promise<ShapedBody> {
  const { operation, body, owner, response } = task;
  const headers = headersOf(response);
  const gone = new AbortController();
  const onClose = (): void => gone.abort(new ClientGone('the client left before its answer'));
  if (response.destroyed) onClose();
  response.once('close', onClose);
  const options: JobOptions = { owner, gone: gone.signal };
  const blocks = body.bytes.handOver();
  const { outlined, held, thread } = await shaping.hold(
    { kind: 'shape', operation, headers, blocks },
    options,
  );
  let isHeld = true;
  return {
    shaped: withText(outlined, new TextOnThread(shaping, { ...options, thread }, held)),
    release: () => {
      if (!isHeld) return;
      isHeld = false;
      response.off('close', onClose);
      shaping.drop(held, thread);
      body.release();
    },
  };
}

function headersOf({ req: request }: ServerResponse): ShapeHeaders {
  return {
    contentType: request.headers['content-type'],
    version: oneHeader(request, 'anthropic-version'),
    beta: oneHeader(request, 'anthropic-beta'),
  };
}

class TextOnThread implements HeldText {
  readonly #shaping: Shaping;
  readonly #options: JobOptions & { readonly thread: Thread };
  readonly #held: number;

  constructor(shaping: Shaping, options: JobOptions & { readonly thread: Thread }, held: number) {
    this.#shaping = shaping;
    this.#options = options;
    this.#held = held;
  }

  async nodeBody(dialect: Dialect, target: NodeTarget): Promise<Uint8Array<ArrayBuffer>> {
    const job = { kind: 'render', held: this.#held, dialect, target } as const;
    return (await this.#shaping.run(job, 'rendered', this.#options)).bytes;
  }

  async countQuestion(dialect: Dialect, served: string): Promise<CountQuestion | undefined> {
    const job = { kind: 'question', held: this.#held, dialect, served } as const;
    return (await this.#shaping.run(job, 'question', this.#options)).question;
  }
}
