/**
 * The verdict on a request. Access log, metrics, records, lists and explanations all derive it here, from the same recorded
 * facts, so no two of them can disagree. Records of version 0.2.0 have these facts, too.
 */
import { z } from 'zod';

/** `served`: the whole answer was delivered. `refused`: the error envelope is the answer. `ended`: somebody broke it off. */
export const outcomeSchema = z.enum(['served', 'refused', 'ended']);
export type RequestOutcome = z.infer<typeof outcomeSchema>;

/** Who ended a request early, as recorded. `deadline`: the gateway, because the node was too slow. */
export const enderSchema = z.enum(['client', 'node', 'deadline', 'gateway']);
export type Ender = z.infer<typeof enderSchema>;

/** How far a request had come when it ended: not decided yet, decided without a byte of an answer, or within its answer. */
export const phaseSchema = z.enum(['undecided', 'unanswered', 'answering']);

/** Facts that the verdict on a request follows from, as recorded. */
export interface VerdictFacts {
  /** Neither refused nor, except in version 0.2.0, ended early. */
  readonly served: boolean;
  /** `completed`, or `ended by` and who did. */
  readonly outcome?: string | undefined;
  readonly status?: number | undefined;
  /** When limits and routing had decided, and when the answer began. */
  readonly ms: { readonly decided?: number | undefined; readonly begun?: number | undefined };
}

export interface RecordedVerdict {
  readonly outcome: RequestOutcome;
  /** Absent if no head of an answer was sent. */
  readonly status?: number | undefined;
  readonly endedBy?: Ender | undefined;
  readonly phase?: z.infer<typeof phaseSchema> | undefined;
}

const endedPrefix = 'ended by ';
export const recordedEnds: readonly string[] = enderSchema.options.map(recordedEnd);

export function recordedEnd(ender: Ender): string {
  return endedPrefix + ender;
}

export function outcomeFrom({
  served,
  outcome = '',
}: Pick<VerdictFacts, 'served' | 'outcome'>): RequestOutcome {
  if (outcome.startsWith(endedPrefix)) return 'ended';
  return served ? 'served' : 'refused';
}

export function verdictFrom(facts: VerdictFacts): RecordedVerdict {
  const outcome = outcomeFrom(facts);
  const { status, ms } = facts;
  if (outcome !== 'ended') return { outcome, status };
  const endedBy = facts.outcome?.slice(endedPrefix.length) as Ender;
  if (ms.begun !== undefined) return { outcome, status, endedBy, phase: 'answering' };
  return { outcome, endedBy, phase: ms.decided === undefined ? 'undecided' : 'unanswered' };
}
