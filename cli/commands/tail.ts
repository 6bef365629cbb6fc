/**
 * The live tail of events, over a WebSocket. A lost connection is made again and goes on behind the last event shown, so
 * that none is missed or shown twice. Events that arrive faster than they can be shown are not gathered without end: the
 * connection is dropped and made again when what is here has been shown.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { WebSocket } from 'undici';
import type { AdminClient } from '../client.ts';
import { CliError, interrupted } from '../errors.ts';
import { writeAll } from '../io.ts';
import type { Renderer, Thing } from '../render.ts';
import type { Session } from '../session.ts';
import { cellText, printableJson } from '../text.ts';
import { allEvents, eventView } from './event-list.ts';

/** What a tail shows. */
export interface TailOptions {
  readonly from?: number;
  readonly type?: string;
  readonly untilEnd?: boolean;
}

const queueMax = 10_000;
/** Attempts in a row without one event or an opened connection. */
const failuresMax = 8;
const backoffMsMax = 5000;

/** Runs until the end that is asked for, or an interrupt. `backoffMs` is doubled at each failure in a row. */
export async function tail(session: Session, options: TailOptions, backoffMs = 200): Promise<void> {
  const api = await session.api();
  const out = session.io.stdout.isTTY ? session.out : session.defaultFormat('jsonl');
  if (options.untilEnd) {
    const { items } = await allEvents(api, options);
    for (const event of items as Thing[]) await show(session, out, event);
    return;
  }
  // Also tells whether the token is accepted, which a refused upgrade would not.
  const status = await api.get('/status');
  const follower = new Follower(
    session,
    api,
    out,
    options.from ?? Number(status['position']) + 1,
    options.type,
  );
  await follower.run(backoffMs);
}

/** One line an event. */
async function show(session: Session, out: Renderer, event: Thing): Promise<void> {
  const cells = eventView.columns.map(({ cell }) => cellText(cell(event)));
  const text = { table: cells.join('  '), name: cellText(eventView.name(event)) };
  switch (out.format) {
    case 'table':
    case 'name':
      return writeAll(session.io.stdout, `${text[out.format]}\n`);
    case 'yaml':
      await writeAll(session.io.stdout, '---\n');
      return out.document(event);
    default:
      return writeAll(session.io.stdout, `${printableJson(event)}\n`);
  }
}

class Follower {
  readonly #session: Session;
  readonly #api: AdminClient;
  readonly #out: Renderer;
  readonly #type: string | undefined;
  /** Where to go on: the position of the last event shown, and its place in the commit. */
  #from: number;
  #index = -1;
  #failures = 0;
  /** What the control plane gave as the reason of the last end; empty where the connection just broke. */
  #reason = '';

  constructor(session: Session, api: AdminClient, out: Renderer, from: number, type: string | undefined) {
    this.#session = session;
    this.#api = api;
    this.#out = out;
    this.#from = from;
    this.#type = type;
  }

  async run(backoffMs: number): Promise<void> {
    const { signal } = this.#session;
    while (!signal.aborted) {
      await this.#connection();
      if (signal.aborted) break;
      this.#failures++;
      if (this.#failures >= failuresMax) throw this.#lost();
      const how =
        this.#reason === '' ? 'connection lost' : `the control plane ended the tail: ${this.#reason}`;
      this.#session.note(`${how}; going on from position ${this.#from}`);
      const pauseMs = Math.min(backoffMsMax, backoffMs * 2 ** this.#failures);
      await sleep(pauseMs, undefined, { signal }).catch(() => undefined);
    }
    throw interrupted();
  }

  #lost(): CliError {
    const again = `headgate events tail --from ${this.#from}`;
    return new CliError('the tail was lost and could not be made again', {
      type: 'ConnectionLost',
      exitCode: 7,
      ...(this.#reason !== '' && { why: `the control plane ended it: ${this.#reason}` }),
      next:
        this.#reason === ''
          ? again
          : `ask another control plane with --admin, or once it is recovered: ${again}`,
    });
  }

  /** Shows events until the connection ends or the queue is full and has been shown. */
  async #connection(): Promise<void> {
    const { signal } = this.#session;
    const { admin, token } = this.#api.settings;
    const url = new URL(`${admin.replace(/^http/, 'ws')}/admin/v1/events/stream`);
    url.searchParams.set('from', String(this.#from));
    if (this.#type !== undefined) url.searchParams.set('type', this.#type);
    const socket = new WebSocket(url, { headers: { authorization: `Bearer ${token}` } });
    const queue: string[] = [];
    let wake: () => void = () => undefined;
    let open = true;
    const end = (): void => {
      open = false;
      wake();
    };
    socket.addEventListener('message', ({ data }) => {
      if (!open) return;
      if (queue.push(String(data)) < queueMax) wake();
      else {
        socket.close();
        end();
      }
    });
    this.#reason = '';
    socket.addEventListener('close', ({ reason }) => {
      this.#reason = reason;
      end();
    });
    socket.addEventListener('error', end);
    const onAbort = (): void => {
      socket.close();
      end();
    };
    signal.addEventListener('abort', onAbort);
    try {
      while (open || queue.length > 0) {
        const text = queue.shift();
        if (text !== undefined) await this.#event(text);
        else if (open) await new Promise<void>((resolve) => (wake = resolve));
        if (signal.aborted) return;
      }
    } finally {
      signal.removeEventListener('abort', onAbort);
      socket.close();
    }
  }

  async #event(text: string): Promise<void> {
    const event = JSON.parse(text) as Thing;
    const [at, index] = [Number(event['position']), Number(event['index'])];
    if (at < this.#from || (at === this.#from && index <= this.#index)) return;
    await show(this.#session, this.#out, event);
    this.#from = at;
    this.#index = index;
    this.#failures = 0;
  }
}
