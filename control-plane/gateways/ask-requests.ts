/** Asks all gateways for their requests and merges them into pages, newest first. Reports which gateways are silent. */
import { setImmediate } from 'node:timers/promises';
import type { z } from 'zod';
import {
  type GatewayRow,
  gatewayPageEndSchema,
  gatewayRowSchema,
} from '../../schemas/admin/gateway-requests.ts';
import {
  ask,
  type DecisionSources,
  resolveRoute,
  type Source,
  selectSources,
  type Way,
} from './ask-decisions.ts';

/** Query parameters that are sent to a gateway. */
export type GatewayFilter = Readonly<Record<string, string | number | undefined>>;

export interface AskedRequests {
  readonly filter: GatewayFilter;
  /** Name of the only gateway to ask, or undefined to ask all. */
  readonly gateway: string | undefined;
}

/** A row of the request list and the gateway that returned it. */
export interface GivenRow {
  readonly gateway: string;
  readonly row: GatewayRow;
}

const answerTimeoutMs = 3_000;
/** Time limit in ms for collecting a page. If few requests match, the page contains only those found by then. */
const pageTimeoutMs = 4_000;

/** Selects one process per gateway name: the one that reported last, because a gateway has a new process after a restart. */
export function askedSources(sources: DecisionSources, { gateway }: AskedRequests): Source[] {
  const newest = new Map<string, Source>();
  for (const source of selectSources(sources, gateway)) {
    const other = newest.get(source.name);
    if (other === undefined || other.seenMs < source.seenMs) newest.set(source.name, source);
  }
  return [...newest.values()];
}

/** Returns the requested gateway's name if no such gateway is known, so that it is listed as silent. */
export function listUnknown(found: readonly Source[], { gateway }: AskedRequests): string[] {
  return gateway === undefined || found.length > 0 ? [] : [gateway];
}

export function buildPath(path: string, fields: GatewayFilter): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(fields)) if (value !== undefined) query.set(name, String(value));
  // Omits the question mark if there is no query, because the signed path must equal the path that is sent.
  return query.size === 0 ? path : `${path}?${query.toString()}`;
}

export async function* parseLines(answer: AsyncIterable<string>): AsyncGenerator<unknown, void> {
  for await (const text of answer) {
    for (const line of text.split('\n')) if (line !== '') yield JSON.parse(line);
    // Pieces of up to a hundred lines often arrive together, so let other work run between them.
    await setImmediate();
  }
}

/** Requests read from one gateway for one page, newest first. */
class GatewayPages {
  readonly source: Source;
  readonly #rows: GatewayRow[] = [];
  /** Row number of the oldest row added to the page so far, or 0 once there are no more rows. */
  #position: number;
  /** Row number before which the next read starts, or 0 if the gateway has no more rows. */
  #before: number;

  constructor(source: Source, position: number) {
    this.source = source;
    this.#position = position;
    this.#before = position;
  }

  get position(): number {
    return this.#rows.length === 0 ? this.#before : this.#position;
  }

  get newest(): GatewayRow | undefined {
    return this.#rows[0];
  }

  /** Whether all fetched rows have been added to the page and the gateway may have more. */
  get isEmpty(): boolean {
    return this.#rows.length === 0 && this.#before > 0;
  }

  take(): GatewayRow | undefined {
    const row = this.#rows.shift();
    if (row !== undefined) this.#position = row.n ?? 0;
    return row;
  }

  async fill(filter: GatewayFilter, limit: number, way: Way): Promise<void> {
    this.#position = this.#before;
    const fields = { ...filter, before: this.#before, limit };
    let end: z.infer<typeof gatewayPageEndSchema> | undefined;
    for await (const line of parseLines(ask(this.source, buildPath('/requests', fields), way))) {
      if (end !== undefined) throw new Error('it answers more after the end of a page');
      const row = gatewayRowSchema.safeParse(line).data;
      if (row === undefined) end = gatewayPageEndSchema.parse(line);
      else if (this.#rows.push(row) > limit) throw new Error('the response contains more than was requested');
    }
    this.#before = Math.min(end?.before ?? 0, this.#before);
  }
}

export interface PageOf<Row> {
  readonly items: Row[];
  /** Row number at which each gateway's part of the next page starts. Absent after the last page. */
  readonly next?: ReadonlyMap<string, number>;
  readonly silent: string[];
}

export interface AskedPage extends AskedRequests {
  readonly limit: number;
  /** `next` of the previous page. It does not contain gateways that were silent when that page was read. */
  readonly from: ReadonlyMap<string, number> | undefined;
}

/** Requests read from all gateways for one page. */
class FleetPages {
  readonly #sources: DecisionSources;
  readonly #asked: AskedPage;
  readonly #silent: Set<string>;
  #pages: GatewayPages[] = [];

  constructor(sources: DecisionSources, asked: AskedPage) {
    this.#sources = sources;
    this.#asked = asked;
    const found = askedSources(sources, asked);
    this.#silent = new Set(listUnknown(found, asked));
    const { from } = asked;
    for (const source of found) {
      const position = from === undefined ? Number.MAX_SAFE_INTEGER : from.get(source.name);
      if (position === undefined) this.#silent.add(source.name);
      else this.#pages.push(new GatewayPages(source, position));
    }
  }

  get silent(): string[] {
    return [...this.#silent].sort();
  }

  /** Row number at which each gateway's part of the next page starts, or undefined once all rows have been returned. */
  get next(): ReadonlyMap<string, number> | undefined {
    const next = new Map(this.#pages.map(({ source, position }) => [source.name, position]));
    return [...next.values()].some((position) => position > 0) ? next : undefined;
  }

  /** Fetches more rows from every gateway whose fetched rows are used up. Returns false if there is no such gateway. */
  async fill(client: AbortSignal): Promise<boolean> {
    const empty = this.#pages.filter(({ isEmpty }) => isEmpty);
    if (empty.length === 0) return false;
    const way = resolveRoute(this.#sources, client, this.#sources.askTimeoutMs ?? answerTimeoutMs);
    const { filter, limit } = this.#asked;
    await Promise.all(
      empty.map((page) =>
        page.fill(filter, limit, way).catch(() => {
          this.#silent.add(page.source.name);
          this.#pages = this.#pages.filter((each) => each !== page);
        }),
      ),
    );
    return true;
  }

  take(): GivenRow | undefined {
    const newest = findNewest(this.#pages);
    const row = newest?.take();
    return newest && row && { gateway: newest.source.name, row };
  }
}

/** Returns the newest rows that `shown` accepts. A page may contain fewer rows than requested even if more rows follow. */
export async function requestPage<Row>(
  sources: DecisionSources,
  asked: AskedPage,
  shown: (given: GivenRow) => Row | undefined,
  client: AbortSignal,
): Promise<PageOf<Row>> {
  const pages = new FleetPages(sources, asked);
  const items: Row[] = [];
  const endMs = performance.now() + pageTimeoutMs;
  while (items.length < asked.limit && !client.aborted) {
    if (await pages.fill(client)) {
      if (performance.now() > endMs) break;
      continue;
    }
    const given = pages.take();
    if (given === undefined) break;
    const item = shown(given);
    if (item !== undefined) items.push(item);
  }
  const { next, silent } = pages;
  return { items, ...(next !== undefined && { next }), silent };
}

function findNewest(pages: readonly GatewayPages[]): GatewayPages | undefined {
  let newest: GatewayPages | undefined;
  for (const page of pages)
    if (page.newest && (newest?.newest === undefined || page.newest.endedMs > newest.newest.endedMs))
      newest = page;
  return newest;
}
