/** Decides requests at gateways that do not return decision records. Builds the requests from traffic reports instead. */
import { visitorsSubject } from '../../schemas/records/limits.ts';
import { type Answers, isServed } from './answer-labels.ts';
import type { ServedRequests } from './effect-recorded.ts';
import { buildFacts, type Question } from './question.ts';
import type { CounterFacts } from './recorded-counters.ts';

export interface ReportedRequests {
  /** Organisation that made the requests. All visitors together count as one organisation. */
  readonly organisation: string;
  /** Stack to which the requests were sent. Absent for the shared host. */
  readonly stack?: string | undefined;
  readonly model: string;
  readonly requests: number;
  /** Number of the organisation's requests per minute, averaged over the hour. */
  readonly perMinute: number;
}

/** Operations to try in order, because reports do not name the operation. Assumes the first one that would be served. */
const operations = ['chat', 'messages', 'rerank'] as const;

/** Decides reported requests on the state before the change, in one turn of the event loop, and returns the served ones. */
export function reportedAnswers(
  before: Answers,
  reported: readonly ReportedRequests[],
  nowMs: number,
): ServedRequests[] {
  return reported.flatMap((row) => {
    for (const operation of operations) {
      const question = toQuestion(row, operation, nowMs);
      const from = before.of(question);
      if (isServed(from)) return [{ ...servedAs(row), operation, question, from }];
    }
    return [];
  });
}

function servedAs({ organisation, stack, model, requests }: ReportedRequests) {
  return {
    ...(organisation !== visitorsSubject && { organisation }),
    ...(stack !== undefined && { stack }),
    model,
    requests,
  };
}

/** Builds a request for a single token, because reports do not contain prompt lengths. */
function toQuestion(
  { organisation, stack, model, perMinute }: ReportedRequests,
  operation: (typeof operations)[number],
  nowMs: number,
): Question {
  const isVisitor = organisation === visitorsSubject;
  const facts = buildFacts({
    operation,
    model,
    promptTokensMax: 1,
    maxTokens: 1,
    credential: { organisation: isVisitor ? '' : organisation },
    visitor: isVisitor ? 'v-reported' : undefined,
    host: stack === undefined ? 'shared' : 'stack',
    stack,
  });
  const counters = evenCounters(isVisitor ? 0 : perMinute, isVisitor ? perMinute : 0);
  return { facts, counters, fenced: false, outboxFull: false, nowMs };
}

/** Returns the counters that a request would meet if the hour's requests had been evenly distributed. */
function evenCounters(windowUsed: number, byVisitors: number): CounterFacts {
  const none = { inFlight: 0, poolTokens: 0, freeTurns: 0, networkTurns: 0 };
  return { ...none, windowUsed, visitors: { windowUsed: byVisitors, inFlight: 0, tokens: 0 } };
}
