/**
 * Samples recent completed requests as decision records, so that a control plane can decide them again under other rules. The
 * sample is spread evenly over organisations, hosts and models. Each line says how many requests it stands for.
 */
import { setImmediate } from 'node:timers/promises';
import type { GatewayQuery, GatewaySample } from '../../schemas/admin/gateway-requests.ts';
import { type RecordedName, recordedNames } from '../../schemas/records/request-record.ts';
import { wallClockMs } from '../../shared/runtime/clock.ts';
import type { DecisionJournal } from './decision-journal.ts';
import { EvenSample } from './even-sample.ts';
import { toDecisionRecord } from './project.ts';
import { meantGroups, type ReadBounds, toJsonLine } from './read-requests.ts';
import { readHost, type WrittenRequest } from './request-row.ts';

/** Limit on reading: about 200,000 requests. If there are more, the sample covers only the newest and says since when. */
const sampleBounds: ReadBounds = { charactersMax: 32 * 1024 * 1024 };
const linesPerTurn = 100;

const columnIndex = (name: RecordedName): number => recordedNames.indexOf(name);
const [organisationCell, modelCell, timeCell] = [
  columnIndex('organisation'),
  columnIndex('model'),
  columnIndex('atMs'),
];

function requestKind(request: WrittenRequest): string {
  return JSON.stringify([request[organisationCell], readHost(request), request[modelCell]]);
}

/** Yields one line per sampled request, then one that says since when the sample is complete. Throws `JournalSilent`. */
export async function* requestSample(
  journal: DecisionJournal,
  query: GatewayQuery,
  bounds = sampleBounds,
): AsyncGenerator<string[]> {
  const sample = new EvenSample(query.sampled);
  let { sinceMs } = query;
  let oldestMs = wallClockMs();
  for await (const { meant, isLast } of meantGroups(journal, { ...query, outcome: 'served' }, bounds)) {
    for (const { request } of meant) {
      sample.add(requestKind(request), request);
      oldestMs = Math.min(oldestMs, Number(request[timeCell]));
    }
    if (isLast) sinceMs = Math.max(sinceMs, oldestMs);
  }
  const { gateway, oneIn } = journal;
  const taken = sample.taken();
  for (let at = 0; at < taken.length; at += linesPerTurn) {
    yield taken.slice(at, at + linesPerTurn).map(({ request, requests }) => {
      const sampled: GatewaySample = {
        requests: requests * oneIn,
        decision: toDecisionRecord(request, gateway),
      };
      return toJsonLine(sampled);
    });
    // Let waiting requests run before the next batch.
    await setImmediate();
  }
  yield [toJsonLine({ sinceMs: Math.floor(sinceMs) })];
}
