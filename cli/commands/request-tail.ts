/** Live tail of requests. Reconnects when the connection drops, and neither loses nor repeats a request. */
import type { OperationInput } from '../../schemas/admin/admin.ts';
import { type RequestsMessage, requestsPerPageMax } from '../../schemas/admin/requests.ts';
import { BoundedMap } from '../../shared/runtime/bounded-map.ts';
import { sleep } from '../../shared/runtime/retry.ts';
import { CliError, interrupted } from '../terminal/errors.ts';
import { writePiece } from '../terminal/io.ts';
import type { Session } from '../terminal/session.ts';
import { printableJson } from '../terminal/text.ts';
import { formatRow, noteSilent } from './request-rows.ts';

/** Number of consecutive connections without a message after which the tail gives up. */
const failuresMax = 8;
const backoffMs = 200;
const backoffMsMax = 5000;
/** Time in ms without data after which a connection is abandoned. A working control plane sends data every ten seconds. */
const idleMs = 30_000;
/** Number of request ids that are remembered, so that no request is printed twice. */
const printedMax = 10_000;
const lastDefault = 10;

/** Prints requests as they complete, until Ctrl-C. */
export async function tailRequests(session: Session, asked: TailQuery): Promise<void> {
  const tail = new RequestTail(session, asked);
  const { signal } = session;
  while (!signal.aborted) {
    const failure = await tail.connection().catch((error: unknown) => error);
    if (signal.aborted) break;
    await tail.again(failure);
  }
  throw interrupted();
}

/** Filter of the live tail. `limit` is the number of past requests to print first. */
type TailQuery = OperationInput<'request.tail'>;

class RequestTail {
  readonly #session: Session;
  readonly #asked: TailQuery;
  readonly #printed = new BoundedMap<string, true>(printedMax, 'oldest');
  #failures = 0;
  #isFirst = true;
  #silent = '';

  constructor(session: Session, asked: TailQuery) {
    this.#session = session;
    this.#asked = asked;
  }

  /** Reads a single connection until it ends. Rejects if it ended because of an error. */
  async connection(): Promise<void> {
    const api = await this.#session.api();
    const { limit: last = lastDefault } = this.#asked;
    const limit = this.#isFirst ? last : requestsPerPageMax;
    const { pieces } = await api.open('request.tail', { ...this.#asked, limit }, idleMs);
    const decoder = new TextDecoder();
    let rest = '';
    for await (const piece of pieces) {
      const events = (rest + decoder.decode(piece, { stream: true })).split('\n\n');
      rest = events.pop() ?? '';
      for (const event of events) await this.#event(event);
    }
  }

  async again(failure: unknown): Promise<void> {
    // Give up if the first connection is refused, because further ones would be refused, too.
    if (this.#isFirst && failure !== undefined) throw failure;
    this.#failures++;
    if (this.#failures >= failuresMax)
      throw new CliError('the connection that follows requests was lost and could not be restored', {
        ...{ type: 'ConnectionLost', cause: failure },
        next: 'use another control plane with --admin, or try again',
      });
    this.#session.note('connection lost; connecting again');
    await sleep(Math.min(backoffMsMax, backoffMs * 2 ** this.#failures), this.#session.signal);
  }

  async #event(text: string): Promise<void> {
    const [, data] = /^event: requests\ndata: (.*)$/s.exec(text) ?? [];
    if (data === undefined) return;
    const message = JSON.parse(data) as RequestsMessage;
    this.#isFirst = false;
    this.#failures = 0;
    for (const row of message.items.toReversed()) await this.#print(row);
    if (message.missed !== undefined)
      this.#session.note(`${message.missed} more requests ended: headgate requests list shows them`);
    const silent = message.silent.join(' ');
    if (silent !== this.#silent) noteSilent(this.#session, message.silent);
    this.#silent = silent;
  }

  async #print(row: RequestsMessage['items'][number]): Promise<void> {
    if (this.#printed.has(row.request)) return;
    this.#printed.set(row.request, true);
    const { stdout } = this.#session.io;
    const out = stdout.isTTY ? this.#session.out : this.#session.defaultFormat('jsonl');
    switch (out.format) {
      case 'table':
        return writePiece(stdout, `${formatRow(row)}\n`);
      case 'name':
        return writePiece(stdout, `${row.request}\n`);
      case 'yaml':
        await writePiece(stdout, '---\n');
        return out.document(row);
      default:
        return writePiece(stdout, `${printableJson(row)}\n`);
    }
  }
}
