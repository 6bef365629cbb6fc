/**
 * Asks all gateways for requests, as ask-decisions.ts asks for decisions: pages that are merged by time.
 * A gateway that does not answer is named, and does not hold up the answers of the others.
 */
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

/** Fields of a query, as a gateway reads them. */
export type GatewayFilter = Readonly<Record<string, string | number | undefined>>;

export interface AskedRequests {
  readonly filter: GatewayFilter;
  /** Only this one. */
  readonly gateway: string | undefined;
}

/** A row, and who answered it. */
export interface GivenRow {
  readonly gateway: string;
  readonly row: GatewayRow;
}

const answerTimeoutMs = 3_000;
/** For a page: where few of many requests are meant, it is given with what was found until then. */
const pageTimeoutMs = 4_000;

/** One for each name: of a gateway that was started again, the process that reported last. */
export function askedSources(sources: DecisionSources, { gateway }: AskedRequests): Source[] {
  const newest = new Map<string, Source>();
  for (const source of selectSources(sources, gateway)) {
    const other = newest.get(source.name);
    if (other === undefined || other.seenMs < source.seenMs) newest.set(source.name, source);
  }
  return [...newest.values()];
}

/** A gateway that was named and is not known is as silent as one that does not answer. */
export function listUnknown(found: readonly Source[], { gateway }: AskedRequests): string[] {
  return gateway === undefined || found.length > 0 ? [] : [gateway];
}

export function buildPath(path: string, fields: GatewayFilter): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(fields)) if (value !== undefined) query.set(name, String(value));
  // What is signed has no mark without a query, because what is sent has none.
  return query.size === 0 ? path : `${path}?${query.toString()}`;
}

export async function* parseLines(answer: AsyncIterable<string>): AsyncGenerator<unknown, void> {
  for await (const text of answer) {
    for (const line of text.split('\n')) if (line !== '') yield JSON.parse(line);
    // Several pieces of up to a hundred lines often arrive together, so let other work run between them.
    await setImmediate();
  }
}

/** What was read of one gateway for a page, newest first. */
class GatewayPages {
  readonly source: Source;
  readonly #rows: GatewayRow[] = [];
  /** Rows from here on are given; 0: all of them. */
  #position: number;
  /** Where the gateway is asked next. */
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

  /** Nothing is known of what comes next. */
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
      else if (this.#rows.push(row) > limit) throw new Error('it answers more than it was asked for');
    }
    this.#before = Math.min(end?.before ?? 0, this.#before);
  }
}

export interface PageOf<Row> {
  readonly items: Row[];
  /** By gateway, where the next page begins; absent: there is none. */
  readonly next?: ReadonlyMap<string, number>;
  readonly silent: string[];
}

export interface AskedPage extends AskedRequests {
  readonly limit: number;
  /** `next` of the page before; a gateway that was silent then is not in it. */
  readonly from: ReadonlyMap<string, number> | undefined;
}

/** What was read of all gateways for one page. */
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

  /** By gateway; undefined: all was given. */
  get next(): ReadonlyMap<string, number> | undefined {
    const next = new Map(this.#pages.map(({ source, position }) => [source.name, position]));
    return [...next.values()].some((position) => position > 0) ? next : undefined;
  }

  /** Asks the gateways of which nothing is known of what comes next; false: there are none. */
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

/**
 * The newest rows of all gateways. `shown`: what is given of a row; undefined: it is left out. A page may have fewer rows than were
 * asked for although there are more.
 */
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
