/** Reads JSON bodies. Each route declares how large its bodies may be, and each caller has a share of the memory for them. */
import type { IncomingMessage } from 'node:http';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { dropBody, readPieces } from '../../shared/runtime/body-pieces.ts';
import type { MemoryBudget, MemoryShortage } from '../../shared/runtime/byte-budget.ts';
import { ChunkBuffer } from '../../shared/runtime/chunk-buffer.ts';
import { peerPrefix } from '../../shared/runtime/connections.ts';
import { scanJson } from '../../shared/runtime/json-scan.ts';
import { callerName } from '../commands/authorise.ts';
import { type BodyBudgets, type BodyLimit, bodyLimits } from '../core/body-limits.ts';
import { CommandError } from '../core/command-error.ts';
import { requestActor } from './context.ts';

/** Returns the memory budget of the caller or, on a public route, of its network address. */
function chooseBudget(request: FastifyRequest, bodies: BodyBudgets): MemoryBudget {
  if (request.routeOptions.config.access === 'public')
    return bodies.unknown.of(peerPrefix(request.raw.socket.remoteAddress));
  return bodies.callers.of(callerName(requestActor(request)));
}

/** Replaces Fastify's body parsers with one that accepts only JSON. */
export function readBodies(app: FastifyInstance, bodies: BodyBudgets): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('application/json', (request: FastifyRequest) => readJson(request, bodies));
  // Earlier hooks may refuse the request, so its body is requested only after them.
  app.addHook('preParsing', (request, reply, payload, done) => {
    askForBody(request, reply);
    done(null, payload);
  });
  app.addHook('onSend', (request, reply, payload, done) => {
    if (request.raw.complete === false) {
      // Keeps Fastify from closing the connection, which would reset it before the client has read the response.
      reply.removeHeader('connection');
      dropBody(request.raw);
    }
    done(null, payload);
  });
}

function bodyLimit({ routeOptions: { config } }: FastifyRequest): BodyLimit {
  return bodyLimits[config.body ?? 'tiny'];
}

function askForBody(request: FastifyRequest, { raw }: FastifyReply): void {
  const { expect, 'content-length': length } = request.headers;
  // An upgrade to WebSocket has no body, and its client may mistake `100 Continue` for the response to the upgrade.
  const isWanted = !request.is404 && !request.ws && !(Number(length) > bodyLimit(request).bytes);
  if (expect !== undefined && request.raw.httpVersion === '1.1' && isWanted) raw.writeContinue();
}

/** Reads and parses a JSON body. A command without a body may still declare a content type, as most clients do. */
async function readJson(request: FastifyRequest, bodies: BodyBudgets): Promise<unknown> {
  if (request.is404) return undefined;
  const { bytes: bytesMax, json } = bodyLimit(request);
  const text = await readText(request.raw, bytesMax, chooseBudget(request, bodies));
  if (text === '') return undefined;
  const { exceeded } = scanJson(text, json);
  if (exceeded !== undefined) throw new CommandError('CommandTooLarge', excess[exceeded](json[exceeded]));
  const parsed = tryParse(text);
  if (parsed === undefined) throw new CommandError('InvalidCommand', 'the body is not JSON');
  return parsed.value;
}

/**
 * Reads a body as text. Rejects with `CommandError` or `ClientGone`. After a refusal, reads and drops the rest of the body.
 */
async function readText(request: IncomingMessage, bytesMax: number, memory: MemoryBudget): Promise<string> {
  const declared = Number(request.headers['content-length'] ?? bytesMax);
  if (declared > bytesMax) throw bodyRefusal('large', bytesMax);
  const body = new ChunkBuffer({ reserve: (bytes) => memory.reserve(bytes), bytesMax: declared });
  try {
    await readPieces(request, (piece) => {
      if (body.add(piece)) return;
      throw bodyRefusal(body.length + piece.length > declared ? 'large' : memory.shortage, bytesMax);
    });
    return body.whole().toString('utf8');
  } finally {
    memory.release(body.allocatedBytes);
    body.clear();
  }
}

/** Parses JSON, or returns undefined if the text is not JSON. Drops the parser's own message, because it quotes the text. */
function tryParse(text: string): { readonly value: unknown } | undefined {
  try {
    return { value: JSON.parse(text) };
  } catch {
    return undefined;
  }
}

const excess = {
  depth: (max: number) => `the body is nested deeper than ${max}`,
  names: (max: number) => `the body has more than ${max} names`,
  values: (max: number) => `the body has more than ${max} values`,
} as const;

function bodyRefusal(fault: 'large' | MemoryShortage, bytesMax: number): CommandError {
  switch (fault) {
    case 'large':
      return new CommandError('CommandTooLarge', `the body is larger than ${bytesMax} bytes`);
    case 'share':
      return new CommandError(
        'TooManyRequests',
        'your requests take all the memory for bodies that one caller may use',
        { next: 'try again once one of them has finished' },
      );
    case 'memory':
      return new CommandError('Busy', 'this replica holds too many request bodies now', {
        next: 'try again',
      });
    default:
      return fault satisfies never;
  }
}
