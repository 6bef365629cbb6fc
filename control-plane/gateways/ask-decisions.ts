/** Asks the gateways for what they decided, at the addresses of their reports and with the token that both sides have. */
import { type DecisionRecord, decisionRecordSchema } from '../../schemas/decisions.ts';
import type { StatusBoard } from '../../shared/status/status-board.ts';

export interface DecisionSources {
  readonly board: Pick<StatusBoard, 'gateways'>;
  /** The newest first. */
  readonly tokens: readonly string[];
  /** For one decision. */
  readonly timeoutMs?: number | undefined;
}

interface Source {
  readonly name: string;
  readonly url: string | undefined;
}

const timeoutMsDefault = 3_000;
/** Between two pieces of an export. */
const idleTimeoutMs = 30_000;
const lineCharactersMax = 16 * 1024;

function sourcesOf({ board }: DecisionSources, name: string | undefined): Source[] {
  return board
    .gateways()
    .filter(({ report }) => report.stopped !== true && (name === undefined || report.name === name))
    .map(({ report }) => ({ name: report.name, url: report.metrics }));
}

/** The decision of a request, from the one gateway that made it; the others do not have it. Ends early with the signal. */
export async function askDecision(
  sources: DecisionSources,
  request: string,
  client?: AbortSignal,
): Promise<{ readonly decision?: DecisionRecord; readonly unanswered: string[] }> {
  const { timeoutMs = timeoutMsDefault } = sources;
  const deadline = AbortSignal.timeout(timeoutMs);
  const signal = client ? AbortSignal.any([client, deadline]) : deadline;
  const unanswered: string[] = [];
  const found = await Promise.all(
    sourcesOf(sources, undefined).map(async ({ name, url }) => {
      try {
        const response = await ask(sources, url, `/decisions/${request}`, signal);
        if (response.status === 404) return undefined;
        if (!response.ok) throw new Error(`HTTP ${response.status}`);
        return decisionRecordSchema.parse(await response.json());
      } catch {
        unanswered.push(name);
        return undefined;
      }
    }),
  );
  const decision = found.find((each) => each !== undefined);
  return { ...(decision !== undefined && { decision }), unanswered };
}

/** Lines of decisions since a time, gateway after gateway; returns the names of those that did not answer whole. */
export async function* decisionLines(
  sources: DecisionSources,
  sinceMs: number,
  gateway: string | undefined,
): AsyncGenerator<string, string[]> {
  const unanswered: string[] = [];
  for (const source of sourcesOf(sources, gateway)) {
    try {
      yield* linesFrom(sources, source, sinceMs);
    } catch {
      unanswered.push(source.name);
    }
  }
  return unanswered;
}

/** Whole lines of one gateway. Throws where it does not answer to the end. */
async function* linesFrom(sources: DecisionSources, { url }: Source, sinceMs: number): AsyncIterable<string> {
  const idle = new AbortController();
  const timer = setTimeout(() => idle.abort(), idleTimeoutMs);
  try {
    const response = await ask(sources, url, `/decisions?since=${Math.floor(sinceMs)}`, idle.signal);
    if (!response.ok) throw new Error(`HTTP ${response.status}`);
    let rest = '';
    const decoder = new TextDecoder();
    for await (const piece of (response.body ?? []) as AsyncIterable<Uint8Array>) {
      timer.refresh();
      const lines = (rest + decoder.decode(piece, { stream: true })).split('\n');
      rest = lines.pop() ?? '';
      if (rest.length > lineCharactersMax) throw new Error('a line is too long');
      if (lines.length > 0) yield `${lines.join('\n')}\n`;
    }
    if (rest !== '') throw new Error('the answer ended within a line');
  } finally {
    clearTimeout(timer);
  }
}

async function ask(
  { tokens }: DecisionSources,
  url: string | undefined,
  path: string,
  signal: AbortSignal,
): Promise<Response> {
  if (url === undefined) throw new Error('it does not report where its decisions are');
  let response: Response | undefined;
  for (const token of tokens) {
    const headers = { authorization: `Bearer ${token}` };
    // The token is for this address alone.
    response = await fetch(`${url}${path}`, { headers, signal, redirect: 'error' });
    if (response.status !== 401) return response;
    await response.body?.cancel();
  }
  if (response === undefined) throw new Error('there is no token');
  return response;
}
