/**
 * Statistics of a gateway's requests. An hour of a busy one is a million records, whose text takes seconds to read: a thread does
 * that, at a low priority, one at a time, and the thread of the requests only passes on the sums.
 */
import type { GatewayQuery } from '../../schemas/gateway-requests.ts';
import { taskOnThread } from '../../shared/runtime/worker-thread.ts';
import { type DecisionJournal, JournalSilent } from './decision-journal.ts';
import { lineOf, type ReadBounds } from './read-requests.ts';
import type { SummedRequests, SumTask } from './sum-requests.ts';

/** Of a million requests or so. */
const statsBounds: ReadBounds = { charactersMax: 320 * 1024 * 1024 };
/** It holds a segment, the records of one group, and the sums. */
const limits = { maxOldGenerationSizeMb: 64, maxYoungGenerationSizeMb: 8 };

/** Ends once the thread of the question before has. Of all journals of the process, because its memory is that of the process. */
let turn: Promise<unknown> = Promise.resolve();

/** A line for each group, and a last one. Throws JournalSilent. */
export async function* requestStats(
  journal: DecisionJournal,
  query: GatewayQuery,
  client: AbortSignal,
  bounds = statsBounds,
): AsyncGenerator<string[]> {
  const answer = turn.then(async () => {
    if (client.aborted) throw new JournalSilent('nobody waits for the sums');
    return summed({ folder: await journal.writtenFolder(), query, ...bounds }, client);
  });
  turn = answer.catch(() => undefined);
  const { stats, partial } = await answer;
  yield stats.map(lineOf);
  yield [lineOf({ partial: partial || journal.oneIn > 1 })];
}

async function summed(task: SumTask, client: AbortSignal): Promise<SummedRequests> {
  const { result, end } = taskOnThread({
    entry: new URL('./sum-thread.js', import.meta.url),
    ...{ data: task, limits, isRef: false },
    task: async () => (await import('./sum-requests.ts')).sumRequests(task),
  });
  const leave = (): void => void end();
  client.addEventListener('abort', leave);
  try {
    return await result;
  } catch (error) {
    throw new JournalSilent('the records could not be summed up', { cause: error });
  } finally {
    client.removeEventListener('abort', leave);
  }
}
