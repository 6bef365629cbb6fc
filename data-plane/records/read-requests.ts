/**
 * Answers queries about a gateway's requests: pages of past requests, and a stream of new ones. A response reads a bounded
 * amount and says where to continue. The journal is read group by group, so that other work runs in between. A group without
 * a match is not parsed.
 */
import type { GatewayQuery } from '../../schemas/admin/gateway-requests.ts';
import { sleep } from '../../shared/runtime/retry.ts';
import type { ReadGroup } from '../usage/segment-frame.ts';
import type { DecisionJournal } from './decision-journal.ts';
import { parseRequests } from './record-group.ts';
import { isMeant, mayHave, toRow, type WrittenRequest } from './request-row.ts';

export interface ReadBounds {
  /** Maximum number of characters parsed for one response. A request takes about 150 characters. */
  readonly charactersMax: number;
}

const pageBounds: ReadBounds = { charactersMax: 12 * 1024 * 1024 };
/** Cost of searching a group's text for a match, relative to the cost of parsing it. */
const searchShare = 1 / 20;

interface Meant {
  readonly request: WrittenRequest;
  readonly n: number;
}

/** Yields each group's matching requests (newest first), the group's position, and whether to stop reading. */
export async function* meantGroups(
  journal: Pick<DecisionJournal, 'backwards'>,
  query: GatewayQuery,
  { charactersMax }: ReadBounds,
): AsyncGenerator<{ readonly meant: readonly Meant[]; readonly begin: number; readonly isLast: boolean }> {
  const isWanted = mayHave(query);
  let characters = 0;
  for await (const group of journal.backwards(query.before, query.sinceMs)) {
    const isParsed = isWanted(group.text);
    characters += group.text.length * (isParsed ? 1 : searchShare);
    const meant = isParsed ? selectRequests(group, query) : [];
    yield { meant, begin: group.position, isLast: characters >= charactersMax };
    if (characters >= charactersMax) return;
  }
}

/** Requests in a group that match the query, newest first. */
function selectRequests(group: ReadGroup, query: GatewayQuery): Meant[] {
  return parseRequests(group)
    .map((request, at) => ({ request, n: group.position + at }))
    .filter(({ request, n }) => n < query.before && isMeant(request, query))
    .toReversed();
}

export const toJsonLine = (value: object): string => `${JSON.stringify(value)}\n`;

/** Yields the matching rows, then a line that says where the next page begins. Throws `JournalSilent`. */
export async function* requestPages(
  journal: DecisionJournal,
  query: GatewayQuery,
  bounds = pageBounds,
): AsyncGenerator<string[]> {
  if (query.request !== undefined) {
    const request = await journal.findKept(query.request);
    yield request !== undefined && isMeant(request, query)
      ? [toJsonLine(toRow(request)), toJsonLine({})]
      : [toJsonLine({})];
    return;
  }
  let left = query.limit;
  for await (const { meant, begin, isLast } of meantGroups(journal, query, bounds)) {
    const given = meant.slice(0, left);
    left -= given.length;
    if (given.length > 0) yield given.map(({ request, n }) => toJsonLine(toRow(request, n)));
    const before = left === 0 ? given.at(-1)?.n : begin;
    if (left === 0 || isLast) {
      yield [toJsonLine({ before })];
      return;
    }
  }
  yield [toJsonLine({})];
}

/** Maximum number of unsent rows per follower. Further rows are only counted as missed. */
const pendingMax = 1000;
/** Interval in ms at which rows are sent in batches, because sending a batch costs as much as a few hundred rows. */
const gatherMs = 400;
/** Maximum time in ms without a line. A client that receives none for longer knows that the connection is lost. */
const pulseMs = 2000;

/** Yields a row whenever a request ends, and the number of rows left out, until the signal is aborted. */
export async function* followedRequests(
  journal: Pick<DecisionJournal, 'follow'>,
  query: GatewayQuery,
  signal: AbortSignal,
): AsyncGenerator<string[]> {
  const { rowsPerSecond = Number.POSITIVE_INFINITY } = query;
  const linesMax = Math.min(pendingMax, Math.ceil((rowsPerSecond * gatherMs) / 1000));
  let lines: string[] = [];
  let missed = 0;
  const stop = journal.follow((request) => {
    if (!isMeant(request, query)) return;
    if (lines.length < linesMax) lines.push(toJsonLine(toRow(request)));
    else missed++;
  });
  try {
    for (let silentMs = pulseMs; !signal.aborted; silentMs += gatherMs) {
      if (lines.length > 0 || silentMs >= pulseMs) {
        const sent = [...lines, toJsonLine({ missed })];
        [lines, missed, silentMs] = [[], 0, 0];
        yield sent;
      }
      await sleep(gatherMs, signal);
    }
  } finally {
    stop();
  }
}
