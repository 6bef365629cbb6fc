/**
 * Derives the verdict on a request from its recorded facts, including those that version 0.2.0 recorded. The access log,
 * metrics, records, lists and explanations all use this file, so they never disagree.
 */
import { z } from 'zod';

/** Outcome of a request: answered in full (`served`), refused with an error envelope, or ended early by someone (`ended`). */
export const outcomeSchema = z.enum(['served', 'refused', 'ended']);
export type RequestOutcome = z.infer<typeof outcomeSchema>;

/** Party that ended a request early. `deadline` means that the gateway ended it because the node was too slow. */
export const enderSchema = z.enum(['client', 'node', 'deadline', 'gateway']);
export type Ender = z.infer<typeof enderSchema>;

/** How far a request had got when it ended: undecided, decided but not yet responding, or partway through the response. */
export const phaseSchema = z.enum(['undecided', 'unanswered', 'answering']);

/** Recorded facts from which the verdict on a request follows. */
export interface VerdictFacts {
  /** Whether the request was neither refused nor ended early. Version 0.2.0 also sets it for requests that ended early. */
  readonly served: boolean;
  /** Outcome of the request: `completed`, or `ended by …` with the party that ended it. */
  readonly outcome?: string | undefined;
  readonly status?: number | undefined;
  /** Times until limits and routing were decided and until the response began, in ms since the request line arrived. */
  readonly ms: { readonly decided?: number | undefined; readonly begun?: number | undefined };
}

export interface RecordedVerdict {
  readonly outcome: RequestOutcome;
  /** HTTP status of the response. Absent if no header was sent. */
  readonly status?: number | undefined;
  readonly endedBy?: Ender | undefined;
  readonly phase?: z.infer<typeof phaseSchema> | undefined;
}

const endedPrefix = 'ended by ';
export const recordedEnds: readonly string[] = enderSchema.options.map(recordedEnd);

export function recordedEnd(ender: Ender): string {
  return endedPrefix + ender;
}

export function deriveOutcome({
  served,
  outcome = '',
}: Pick<VerdictFacts, 'served' | 'outcome'>): RequestOutcome {
  if (outcome.startsWith(endedPrefix)) return 'ended';
  return served ? 'served' : 'refused';
}

export function deriveVerdict(facts: VerdictFacts): RecordedVerdict {
  const outcome = deriveOutcome(facts);
  const { status, ms } = facts;
  if (outcome !== 'ended') return { outcome, status };
  const endedBy = facts.outcome?.slice(endedPrefix.length) as Ender;
  if (ms.begun !== undefined) return { outcome, status, endedBy, phase: 'answering' };
  return { outcome, endedBy, phase: ms.decided === undefined ? 'undecided' : 'unanswered' };
}
