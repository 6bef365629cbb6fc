/**
 * Live tail of events over a WebSocket. After a lost connection, it resumes after the last printed event, so that no event is
 * missed or printed twice. If the output is slow and the bounded queue is full, the connection is closed, and reopened once
 * the queue is empty. A connection that does not answer pings is closed.
 */

import WebSocket from 'ws';
import { adminPrefix, operationRoute } from '../../schemas/admin/admin-routes.ts';
import { printable } from '../../schemas/printable.ts';
import { sleep } from '../../shared/runtime/retry.ts';
import type { AdminClient } from '../admin-client/admin-client.ts';
import type { Resource } from '../admin-client/answers.ts';
import { CliError, interrupted } from '../terminal/errors.ts';
import { writePiece } from '../terminal/io.ts';
import type { Renderer } from '../terminal/render.ts';
import type { Session } from '../terminal/session.ts';
import { cellText, printableJson } from '../terminal/text.ts';
import { describeEventWithReason, eventView, readAllEvents } from './event-list.ts';

export interface TailCommandOptions {
  readonly from?: number;
  readonly type?: string;
  readonly untilEnd?: boolean;
}

const queueMax = 10_000;
/** Number of consecutive connections without an event after which the tail gives up. */
const failuresMax = 8;
const backoffMsMax = 5000;
const pingEveryMsDefault = 10_000;
/** Number of unanswered pings in a row that ends a connection. A time limit would misfire if this process was suspended. */
const unansweredMax = 3;
const handshakeMsMax = 10_000;
/** Time in ms after which a socket is terminated if its peer does not respond to the close frame. */
const closeMsMax = 1000;
/** Maximum size of a received frame in bytes. It is much larger than any event. */
const frameBytesMax = 16 * 1024 * 1024;

/** Prints events until Ctrl-C or, with --until-end, to the log's end. `backoffMs` doubles with each consecutive failure. */
export async function tail(
  session: Session,
  options: TailCommandOptions,
  backoffMs = 200,
  pingEveryMs = pingEveryMsDefault,
): Promise<void> {
  const api = await session.api();
  const out = session.io.stdout.isTTY ? session.out : session.defaultFormat('jsonl');
  if (options.untilEnd) {
    const { from, type } = options;
    const { items } = await readAllEvents(api, {
      ...(from !== undefined && { from }),
      ...(type !== undefined && { type }),
    });
    for (const event of items) await show(session, out, event);
    return;
  }
  // This call also checks the token, because a refused WebSocket upgrade does not say why it was refused.
  const status = await api.run('status.get');
  const follower = new EventTail(
    session,
    api,
    out,
    options.from ?? Number(status['position']) + 1,
    options.type,
  );
  await follower.run(backoffMs, pingEveryMs);
}

async function show(session: Session, out: Renderer, event: Resource): Promise<void> {
  const { position, at, type, by } = event;
  const sentence = `${cellText(by)} ${printable(describeEventWithReason(event))}`;
  const text = {
    table: [position, at, type].map(cellText).concat(sentence).join('  '),
    name: cellText(eventView.name(event)),
  };
  switch (out.format) {
    case 'table':
    case 'name':
      return writePiece(session.io.stdout, `${text[out.format]}\n`);
    case 'yaml':
      await writePiece(session.io.stdout, '---\n');
      return out.document(event);
    default:
      return writePiece(session.io.stdout, `${printableJson(event)}\n`);
  }
}

class EventTail {
  readonly #session: Session;
  readonly #api: AdminClient;
  readonly #out: Renderer;
  readonly #type: string | undefined;
  /** Position of the last printed event, after which the tail resumes. `#index` is the event's index in its commit. */
  #from: number;
  #index = -1;
  #failures = 0;
  /** Reason that the control plane gave for closing the connection. Empty if the connection was lost. */
  #reason = '';
  /** Whether the last connection was closed because the control plane did not answer pings. */
  #isSilent = false;

  constructor(session: Session, api: AdminClient, out: Renderer, from: number, type: string | undefined) {
    this.#session = session;
    this.#api = api;
    this.#out = out;
    this.#from = from;
    this.#type = type;
  }

  async run(backoffMs: number, pingEveryMs: number): Promise<void> {
    const { signal } = this.#session;
    while (!signal.aborted) {
      await this.#connection(pingEveryMs);
      if (signal.aborted) break;
      this.#failures++;
      if (this.#failures >= failuresMax) throw this.#lost();
      this.#session.note(`${this.#endText()}; resuming at position ${this.#from}`);
      const pauseMs = Math.min(backoffMsMax, backoffMs * 2 ** this.#failures);
      await sleep(pauseMs, signal);
    }
    throw interrupted();
  }

  #endText(): string {
    if (this.#isSilent) return 'the control plane does not answer pings';
    return this.#reason === '' ? 'connection lost' : `the control plane closed the tail: ${this.#reason}`;
  }

  #lost(): CliError {
    const again = `headgate events tail --from ${this.#from}`;
    return new CliError('the connection that follows the log was lost and could not be restored', {
      type: 'ConnectionLost',
      ...(this.#reason !== '' && { why: `the control plane closed it: ${this.#reason}` }),
      next:
        this.#reason === ''
          ? again
          : `use another control plane with --admin, or retry after it has recovered: ${again}`,
    });
  }

  /** Prints the events of one connection until it ends. If the queue gets full, disconnects and prints what is queued. */
  async #connection(pingEveryMs: number): Promise<void> {
    const { signal } = this.#session;
    const socket = this.#open();
    const queue: string[] = [];
    let wake: () => void = () => undefined;
    let open = true;
    const end = (): void => {
      open = false;
      wake();
    };
    socket.on('message', (data) => {
      if (!open) return;
      if (queue.push(String(data)) < queueMax) wake();
      else {
        close(socket);
        end();
      }
    });
    this.#reason = '';
    this.#isSilent = false;
    socket.on('close', (_code, reason) => {
      this.#reason = String(reason);
      end();
    });
    socket.on('error', end);
    const stopPings = pingUntilSilent(socket, pingEveryMs, () => {
      this.#isSilent = true;
      end();
    });
    signal.addEventListener('abort', end);
    try {
      while (open || queue.length > 0) {
        const text = queue.shift();
        if (text !== undefined) await this.#event(text);
        else if (open) await new Promise<void>((resolve) => (wake = resolve));
        if (signal.aborted) return;
      }
    } finally {
      signal.removeEventListener('abort', end);
      stopPings();
      close(socket);
    }
  }

  #open(): WebSocket {
    const { admin, token } = this.#api.settings;
    const url = new URL(`${admin.replace(/^http/, 'ws')}${adminPrefix}${operationRoute('event.tail').path}`);
    url.searchParams.set('from', String(this.#from));
    if (this.#type !== undefined) url.searchParams.set('type', this.#type);
    return new WebSocket(url, {
      headers: { authorization: `Bearer ${token}` },
      handshakeTimeout: handshakeMsMax,
      maxPayload: frameBytesMax,
    });
  }

  async #event(text: string): Promise<void> {
    const event = JSON.parse(text) as Resource;
    const [at, index] = [Number(event['position']), Number(event['index'])];
    if (at < this.#from || (at === this.#from && index <= this.#index)) return;
    await show(this.#session, this.#out, event);
    this.#from = at;
    this.#index = index;
    this.#failures = 0;
  }
}

/** Sends pings while the socket is open. Calls `onSilent` after several pings without any frame from the peer. */
function pingUntilSilent(socket: WebSocket, everyMs: number, onSilent: () => void): () => void {
  let unanswered = 0;
  const onFrame = (): void => {
    unanswered = 0;
  };
  for (const event of ['message', 'ping', 'pong']) socket.on(event, onFrame);
  const timer = setInterval(() => {
    if (socket.readyState !== WebSocket.OPEN) return;
    if (unanswered++ < unansweredMax) socket.ping();
    else onSilent();
  }, everyMs);
  return () => clearInterval(timer);
}

/** Closes the socket cleanly. If the peer does not respond, terminates it, so that the process does not wait. */
function close(socket: WebSocket): void {
  if (socket.readyState === WebSocket.CLOSED) return;
  const timer = setTimeout(() => socket.terminate(), closeMsMax);
  socket.on('close', () => clearTimeout(timer));
  socket.close();
}
