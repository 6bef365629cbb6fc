/**
 * A sample of the requests that completed lately, as whole decisions, for control planes that decide them again: evenly over
 * organisations, hosts and models, so that small ones are not lost. Each says how many it stands for.
 */
import { setImmediate } from 'node:timers/promises';
import type { GatewayQuery, GatewaySampled } from '../../schemas/admin/gateway-requests.ts';
import { type RecordedName, recordedNames } from '../../schemas/records/request-record.ts';
import { wallClockMs } from '../../shared/runtime/clock.ts';
import type { DecisionJournal } from './decision-journal.ts';
import { EvenSample } from './even-sample.ts';
import { decisionOf } from './project.ts';
import { lineOf, meantGroups, type ReadBounds } from './read-requests.ts';
import { hostOf, type WrittenRequest } from './request-row.ts';

/** Some 200,000 requests, the newest: where there were more since the time that is asked for, the answer says since when they are. */
const sampleBounds: ReadBounds = { charactersMax: 32 * 1024 * 1024 };
const linesPerTurn = 100;

const cellOf = (name: RecordedName): number => recordedNames.indexOf(name);
const [organisationCell, modelCell, timeCell] = [cellOf('organisation'), cellOf('model'), cellOf('atMs')];

function kindOf(request: WrittenRequest): string {
  return JSON.stringify([request[organisationCell], hostOf(request), request[modelCell]]);
}

/** A line for each decision, and a last one. Throws JournalSilent. */
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
      sample.add(kindOf(request), request);
      oldestMs = Math.min(oldestMs, Number(request[timeCell]));
    }
    if (isLast) sinceMs = Math.max(sinceMs, oldestMs);
  }
  const { gateway, oneIn } = journal;
  const taken = sample.taken();
  for (let at = 0; at < taken.length; at += linesPerTurn) {
    yield taken.slice(at, at + linesPerTurn).map(({ request, requests }) => {
      const sampled: GatewaySampled = { requests: requests * oneIn, decision: decisionOf(request, gateway) };
      return lineOf(sampled);
    });
    // What requests wait for comes between two pieces.
    await setImmediate();
  }
  yield [lineOf({ sinceMs: Math.floor(sinceMs) })];
}
