/** Rows of requests from all gateways as the requests end. Streams with the same question share one call to each gateway. */
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
  /** Largest number of rows sent per second. Further rows are only counted. */
  readonly rowsPerSecond?: number | undefined;
}

/** Rows that ended since the last ones, in the order in which they ended. */
export interface LiveRows {
  readonly rows: readonly GivenRow[];
  readonly silent: readonly string[];
  readonly missed: number;
}

/** Interval at which rows are passed on and new gateways are asked. */
const liveTurnMs = 200;
const againMs = 1_000;
/** Time after which a gateway counts as silent; longer than the gap between two of its lines. */
const idleMs = 6_000;
/** Time in ms before a gateway that has not answered yet counts as silent. */
const beginMs = 1_500;
const pendingMax = 5_000;
/** Multiple of its even share of the rows that a gateway may send, because others have fewer requests. */
const sharesOfGateway = 2;

/** Rows that wait to be sent on one stream. */
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

/** Asks all gateways one question, and shares the rows among all streams that ask it. */
class LiveGateways {
  readonly followers = new Set<LiveFollower>();
  readonly #sources: DecisionSources;
  readonly #asked: FollowedRequests;
  readonly #end = new AbortController();
  /** Gateways that were asked, and whether each of them answers. */
  readonly #answers = new Map<string, boolean>();
  #silent: string[] = [];

  constructor(sources: DecisionSources, asked: FollowedRequests) {
    this.#sources = sources;
    this.#asked = asked;
  }

  end(): void {
    this.#end.abort();
  }

  /** Asks gateways that have not been asked yet. */
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

  /** Follows one gateway, which is asked again afterwards. Never rejects. */
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
      // A gateway that does not answer appears in `silent`.
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

/** Selects up to `most` rows, evenly. */
function sampled<Row>(rows: readonly Row[], most: number): readonly Row[] {
  if (rows.length <= most) return rows;
  const share = most / rows.length;
  return rows.filter((_row, at) => Math.floor((at + 1) * share) > Math.floor(at * share));
}

/** The live rows of one replica. Streams with the same question share the connections to the gateways and the rows. */
export class LiveRequests {
  readonly #asked = new Map<string, LiveGateways>();

  /** Yields once all gateways have answered or timed out, then whenever there is something new, until the signal aborts. */
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
