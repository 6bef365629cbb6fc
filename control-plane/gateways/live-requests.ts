/** Streams requests from all gateways as they end. Streams with the same filter share one connection to each gateway. */
import { gatewayPulseSchema, gatewayRowSchema } from '../../schemas/admin/gateway-requests.ts';
import { sleep } from '../../shared/runtime/retry.ts';
import { askUnlessIdle, type DecisionSources, type Source } from './ask-decisions.ts';
import {
  type AskedRequests,
  askedSources,
  buildPath,
  type GivenRow,
  listUnknown,
  parseLines,
} from './ask-requests.ts';

export interface FollowedRequests extends AskedRequests {
  /** Maximum number of rows that are sent per second. Further rows are only counted. */
  readonly rowsPerSecond?: number | undefined;
}

/** Requests that ended since the previous batch, in the order in which they ended. */
export interface LiveRows {
  readonly rows: readonly GivenRow[];
  readonly silent: readonly string[];
  readonly missed: number;
}

/** Interval in ms at which rows are sent to the streams and new gateways are contacted. */
const liveTurnMs = 200;
const againMs = 1_000;
/** Silence in ms after which a gateway's stream is abandoned. Gateways send a line at shorter intervals. */
const idleMs = 6_000;
/** Longest wait in ms for all gateways to answer before a stream yields its first rows. */
const beginMs = 1_500;
const pendingMax = 5_000;
/** Factor by which one gateway may exceed its equal share of the rows, because other gateways may have fewer requests. */
const sharesOfGateway = 2;

/** Rows waiting to be sent on one client's stream. */
class LiveFollower {
  readonly #rowsPerSecond: number;
  #rows: GivenRow[] = [];
  #missed = 0;
  #takenMs = performance.now();

  constructor(rowsPerSecond = Number.POSITIVE_INFINITY) {
    this.#rowsPerSecond = rowsPerSecond;
  }

  get hasRows(): boolean {
    return this.#rows.length > 0 || this.#missed > 0;
  }

  miss(count: number): void {
    this.#missed += count;
  }

  add(row: GivenRow): void {
    if (this.#rows.length < pendingMax) this.#rows.push(row);
    else this.#missed++;
  }

  take(): Pick<LiveRows, 'rows' | 'missed'> {
    const nowMs = performance.now();
    const ended = this.#rows.sort((one, other) => one.row.endedMs - other.row.endedMs);
    const rows = sampled(ended, Math.ceil((this.#rowsPerSecond * (nowMs - this.#takenMs)) / 1000));
    const missed = this.#missed + ended.length - rows.length;
    this.#rows = [];
    this.#missed = 0;
    this.#takenMs = nowMs;
    return { rows, missed };
  }
}

/** Connections to all gateways for one filter. Their rows go to all streams with that filter. */
class LiveGateways {
  readonly followers = new Set<LiveFollower>();
  readonly #sources: DecisionSources;
  readonly #asked: FollowedRequests;
  readonly #end = new AbortController();
  /** Gateways that have been contacted, and whether each one answers. */
  readonly #answers = new Map<string, boolean>();
  #silent: string[] = [];

  constructor(sources: DecisionSources, asked: FollowedRequests) {
    this.#sources = sources;
    this.#asked = asked;
  }

  end(): void {
    this.#end.abort();
  }

  /** Contacts gateways that have appeared since the last call, and updates the list of silent gateways. */
  look(): void {
    const found = askedSources(this.#sources, this.#asked);
    for (const source of found)
      if (!this.#answers.has(source.name)) {
        this.#answers.set(source.name, false);
        void this.#follow(source, found.length);
      }
    const silent = found.map(({ name }) => name).filter((name) => this.#answers.get(name) !== true);
    this.#silent = [...silent, ...listUnknown(found, this.#asked)].sort();
  }

  get silent(): readonly string[] {
    return this.#silent;
  }

  /** Follows one gateway until its stream ends. The next `look` after a pause contacts it again. Never rejects. */
  async #follow(source: Source, gateways: number): Promise<void> {
    const { signal } = this.#end;
    const way = { dispatcher: this.#sources.gatewayAgent, signal };
    const { filter, rowsPerSecond: all } = this.#asked;
    const rowsPerSecond = all === undefined ? undefined : Math.ceil((all * sharesOfGateway) / gateways);
    try {
      const path = buildPath('/requests/live', { ...filter, rowsPerSecond });
      for await (const line of parseLines(askUnlessIdle(source, path, way, idleMs))) {
        this.#answers.set(source.name, true);
        this.#add(source.name, line);
      }
    } catch {
      // Ignore the error, because a gateway that does not answer is listed in `silent`.
    }
    this.#answers.set(source.name, false);
    await sleep(againMs, signal);
    this.#answers.delete(source.name);
  }

  #add(gateway: string, line: unknown): void {
    const row = gatewayRowSchema.safeParse(line).data;
    if (row === undefined) {
      const { missed } = gatewayPulseSchema.parse(line);
      for (const follower of this.followers) follower.miss(missed);
    } else for (const follower of this.followers) follower.add({ gateway, row });
  }
}

/** Selects up to `most` rows, evenly spread over the list. */
function sampled<Row>(rows: readonly Row[], most: number): readonly Row[] {
  if (rows.length <= most) return rows;
  const share = most / rows.length;
  return rows.filter((_row, at) => Math.floor((at + 1) * share) > Math.floor(at * share));
}

export class LiveRequests {
  readonly #asked = new Map<string, LiveGateways>();

  /** Yields once all gateways have answered or timed out, then whenever rows or `silent` change, until the signal aborts. */
  async *follow(
    sources: DecisionSources,
    asked: FollowedRequests,
    signal: AbortSignal,
  ): AsyncGenerator<LiveRows, void> {
    const question = JSON.stringify(asked);
    const live = this.#asked.get(question) ?? new LiveGateways(sources, asked);
    this.#asked.set(question, live);
    const follower = new LiveFollower(asked.rowsPerSecond);
    live.followers.add(follower);
    try {
      yield* liveRows(live, follower, signal);
    } finally {
      live.followers.delete(follower);
      if (live.followers.size === 0) {
        this.#asked.delete(question);
        live.end();
      }
    }
  }
}

async function* liveRows(
  live: LiveGateways,
  follower: LiveFollower,
  signal: AbortSignal,
): AsyncGenerator<LiveRows, void> {
  const startMs = performance.now();
  live.look();
  while (live.silent.length > 0 && performance.now() - startMs < beginMs && !signal.aborted) {
    await sleep(liveTurnMs / 4, signal);
    live.look();
  }
  let said: string | undefined;
  while (!signal.aborted) {
    const silent = live.silent.join(' ');
    if (follower.hasRows || silent !== said) {
      said = silent;
      yield { ...follower.take(), silent: live.silent };
    }
    await sleep(liveTurnMs, signal);
    live.look();
  }
}
