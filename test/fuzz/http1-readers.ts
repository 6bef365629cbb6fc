/** Reads the same bytes with the gateway's HTTP reader and with `node:http`, and returns both results in the same form. */
import {
  type ClientRequest,
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  request as openRequest,
  type Server,
} from 'node:http';
import type { Socket } from 'node:net';
import { Duplex } from 'node:stream';
import { setImmediate as turn } from 'node:timers/promises';
import type { FaultName } from '../../data-plane/http/faults.ts';
import { AnswerHeadReader, type HeadReader, RequestHeadReader } from '../../data-plane/http/head-readers.ts';
import { toHeaderObject } from '../../data-plane/http/header-object.ts';
import type { MessageHead } from '../../data-plane/http/message-head.ts';
import { MessageReader } from '../../data-plane/http/message-reader.ts';

const headBytesMax = 16 * 1024;

export interface ReadMessage {
  /** Method and target of a request, or status of an answer. */
  readonly line: string;
  readonly version: string;
  readonly fields: readonly string[];
  readonly headers: IncomingHttpHeaders;
  body: string;
  isWhole: boolean;
}

export interface ReadBytes {
  readonly messages: ReadMessage[];
  fault: string | undefined;
  /** True if the reader ignores all bytes after the last message. */
  isOver?: boolean;
}

interface OwnHead extends MessageHead {
  readonly httpVersion: string;
  readonly rawHeaders: readonly string[];
}

function readOwn<Head extends OwnHead>(
  heads: HeadReader<Head>,
  pieces: readonly Buffer[],
  lineOf: (head: Head) => string,
  isFinal: (head: Head) => boolean,
): ReadBytes {
  const read: ReadBytes = { messages: [], fault: undefined };
  let current: ReadMessage | undefined;
  let isOver = false;
  const sink = {
    onHead: (head: Head) => {
      const { httpVersion: version, rawHeaders: fields } = head;
      current = {
        line: lineOf(head),
        version,
        fields,
        headers: toHeaderObject(fields),
        body: '',
        isWhole: false,
      };
      read.messages.push(current);
      isOver = isFinal(head);
    },
    onPiece: (piece: Buffer) => {
      if (current !== undefined) current.body += piece.toString('latin1');
    },
    onEnd: () => {
      if (current !== undefined) current.isWhole = true;
    },
    onFault: (fault: FaultName) => {
      read.fault = fault;
    },
  };
  const reader = new MessageReader(heads, sink, headBytesMax);
  const isDone = (): boolean => read.fault !== undefined || (isOver && reader.state === 'ended');
  for (const piece of pieces) {
    // Copies the piece, because the reader moves the chunks inside its input.
    const bytes = Buffer.from(piece);
    for (let at = 0; at < bytes.length && !isDone(); ) at += reader.read(bytes.subarray(at));
  }
  if (!isDone()) reader.close();
  read.isOver = isOver && reader.state === 'ended';
  return read;
}

export function readRequests(pieces: readonly Buffer[]): ReadBytes {
  const heads = new RequestHeadReader(headBytesMax);
  return readOwn(
    heads,
    pieces,
    ({ method, url }) => `${method} ${url}`,
    ({ isLast }) => isLast,
  );
}

/** Reads up to and including the first answer that is not an interim one. */
export function readAnswer(pieces: readonly Buffer[]): ReadBytes {
  const heads = new AnswerHeadReader(headBytesMax);
  return readOwn(
    heads,
    pieces,
    ({ status }) => String(status),
    ({ isInterim }) => !isInterim,
  );
}

/** A connection whose other end is the test. */
class Wire extends Duplex {
  constructor() {
    super();
    this.on('error', () => undefined);
  }

  override _read(): void {
    // Nothing to do, because the test pushes the bytes.
  }

  override _write(_chunk: Buffer, _encoding: string, done: () => void): void {
    done();
  }

  setKeepAlive(): this {
    return this;
  }

  setNoDelay(): this {
    return this;
  }

  setTimeout(): this {
    return this;
  }

  destroySoon(): void {
    this.destroy();
  }
}

function collect(line: string, message: IncomingMessage): ReadMessage {
  const { httpVersion: version, rawHeaders: fields, headers } = message;
  const read: ReadMessage = { line, version, fields, headers, body: '', isWhole: false };
  message.on('data', (piece: Buffer) => {
    read.body += piece.toString('latin1');
  });
  message.on('end', () => {
    read.isWhole = message.complete;
  });
  message.on('error', () => undefined);
  return read;
}

async function push(wire: Wire, pieces: readonly Buffer[]): Promise<void> {
  for (const piece of pieces) {
    wire.push(piece);
    // Waits for the next turn, because pieces pushed in the same turn may be read as one.
    if (pieces.length < 10) await turn();
  }
  await turn();
  await turn();
}

const wires = new WeakMap<object, ReadBytes>();

function opened(): Server {
  const settings = {
    maxHeaderSize: headBytesMax,
    requireHostHeader: false,
    headersTimeout: 0,
    requestTimeout: 0,
  };
  const server = createServer(settings);
  server.maxHeadersCount = 0;
  const onRequest = (request: IncomingMessage): void => {
    wires.get(request.socket)?.messages.push(collect(`${request.method} ${request.url}`, request));
  };
  for (const name of ['request', 'checkContinue', 'checkExpectation']) server.on(name, onRequest);
  server.on('clientError', (error: NodeJS.ErrnoException, socket) => {
    const read = wires.get(socket);
    if (read !== undefined) read.fault ??= error.code ?? error.message;
  });
  server.on('connect', (_request, socket) => {
    const read = wires.get(socket);
    if (read !== undefined) read.fault ??= 'CONNECT';
  });
  return server;
}

const server = opened();

/**
 * Reads requests with a server of `node:http`. Keeps the connection open, because Node drops an incomplete message when its
 * connection ends.
 */
export async function requestsOfNode(pieces: readonly Buffer[]): Promise<ReadBytes> {
  const wire = new Wire();
  const read: ReadBytes = { messages: [], fault: undefined };
  wires.set(wire, read);
  server.emit('connection', wire as unknown as Socket);
  await push(wire, pieces);
  wire.destroy();
  return read;
}

export async function answerOfNode(pieces: readonly Buffer[]): Promise<ReadBytes> {
  const wire = new Wire();
  const read: ReadBytes = { messages: [], fault: undefined };
  const asked: ClientRequest = openRequest({
    ...{ method: 'POST', maxHeaderSize: headBytesMax },
    // Bypasses the agent, which would open a connection of its own.
    createConnection: () => wire as unknown as Socket,
  });
  asked.maxHeadersCount = 0;
  asked.on('information', ({ statusCode, httpVersion: version, rawHeaders: fields, headers }) => {
    const line = String(statusCode);
    read.messages.push({ line, version, fields, headers, body: '', isWhole: true });
  });
  asked.on('response', (message) => read.messages.push(collect(String(message.statusCode), message)));
  asked.on('upgrade', () => {
    read.fault ??= 'upgrade';
  });
  asked.on('error', (error: NodeJS.ErrnoException) => {
    read.fault ??= error.code ?? error.message;
  });
  asked.end();
  await turn();
  await push(wire, pieces);
  wire.push(null);
  await turn();
  await turn();
  wire.destroy();
  asked.destroy();
  return read;
}
