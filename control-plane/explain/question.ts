/** Converts hypothetical and recorded requests to questions, which contain all facts for a decision, and decides them. */

import { operations } from '../../schemas/api/operations.ts';
import { type DecisionRecord, readPromptTokensMax } from '../../schemas/records/decisions.ts';
import {
  type AdmissionFacts,
  admission,
  type HostNames,
  type Verdict,
} from '../../shared/decision/admission.ts';
import type { RecordedCredential } from '../../shared/decision/authenticate.ts';
import { Trace } from '../../shared/decision/trace.ts';
import type { Database } from '../../shared/runtime/sqlite.ts';
import { createLookup, type Lookup } from '../../shared/snapshot/lookup.ts';
import type { StateView } from '../../shared/snapshot/waves.ts';
import { type CounterFacts, fixedCounters } from './recorded-counters.ts';

export interface Question {
  readonly facts: AdmissionFacts;
  readonly counters: CounterFacts;
  readonly fenced: boolean;
  readonly outboxFull: boolean;
  readonly nowMs: number;
}

export interface TracedVerdict {
  readonly verdict: Verdict;
  readonly trace: Trace;
}

/** Empty, because each gateway has its own host names. A question names its target directly instead. */
const noHosts: HostNames = { shared: new Set(), stackDomain: 'invalid' };

/** Placeholder for a model that was not recorded. No model can have this id, so it is decided like any unknown name. */
const unknownModel = '(unknown)';

export function decideInState(db: Database, question: Question): TracedVerdict {
  return decideWithLookup(createLookup(db), question);
}

/** Decides one of many questions on the same state, and traces its steps. */
export function decideWithLookup(
  lookup: Lookup,
  { facts, counters, fenced, outboxFull, nowMs }: Question,
): TracedVerdict {
  const trace = new Trace();
  const of = { lookup, hosts: noHosts };
  return {
    verdict: admission(of, facts, fixedCounters(counters), { fenced, outboxFull, nowMs }, trace),
    trace,
  };
}

/** Decides a question without tracing its steps, because very many questions are decided this way. */
export function verdictWithLookup(lookup: Lookup, question: Question): Verdict {
  const { facts, counters, fenced, outboxFull, nowMs } = question;
  return admission({ lookup, hosts: noHosts }, facts, fixedCounters(counters), { fenced, outboxFull, nowMs });
}

interface QuestionFields
  extends Pick<
    AdmissionFacts,
    'promptTokensMax' | 'promptTokensLeast' | 'maxTokens' | 'visitor' | 'network'
  > {
  readonly operation: DecisionRecord['operation'];
  readonly host: DecisionRecord['host'];
  readonly stack?: string | undefined;
  readonly model?: string | undefined;
  readonly credential: RecordedCredential;
}

export function buildFacts(asked: QuestionFields): AdmissionFacts {
  const { operation, host, stack, model = unknownModel, credential } = asked;
  // Fields are copied one by one, because spreading the objects would take as long as the decision itself.
  const { promptTokensMax, promptTokensLeast, maxTokens, visitor, network } = asked;
  const { method, path } = operations[operation];
  const fixed = host === 'shared' ? ({ kind: 'shared' } as const) : undefined;
  return {
    promptTokensMax,
    promptTokensLeast,
    maxTokens,
    visitor,
    network,
    method,
    path: path.replace('{model}', () => encodeURIComponent(model)),
    model,
    host: undefined,
    fixed: stack === undefined ? fixed : { kind: 'stack', stack },
    authorization: undefined,
    xApiKey: undefined,
    recorded: credential,
  };
}

/**
 * Returns the view of the state at the given position, with or without the open change. A record tells which view the gateway
 * used at its own position. At other positions, the gateway's name determines the view.
 */
export function chooseView({ gateway, position, change }: DecisionRecord, at: number): StateView {
  if (at !== position) return { gateway };
  return change === undefined ? 'base' : 'wave';
}

/** Fields of a decision record that describe the request. The other fields describe the answer. */
export const askedFields = {
  ...{ at: true, host: true, stack: true, operation: true, key: true, header: true, fault: true },
  ...{ carried: true, visitor: true, model: true, promptTokensMax: true, promptTokens: true },
  promptTokensLeast: true,
  ...{ maxTokens: true, counters: true, fenced: true, outboxFull: true },
} as const satisfies Partial<Record<keyof DecisionRecord, true>>;
export type AskedRecord = Pick<DecisionRecord, keyof typeof askedFields>;

/** Builds the question from a recorded decision, which contains everything that the gateway learned from the headers. */
export function questionFromRecord(record: AskedRecord): Question {
  const { key, header = 'authorization', fault = 'missing', carried = false } = record;
  const { operation, host, stack, model, visitor, promptTokensLeast, maxTokens } = record;
  const isOneKey = key !== undefined && fault !== 'two different keys';
  const credential: RecordedCredential = isOneKey ? { keyId: key, header } : { fault, carried };
  return {
    facts: buildFacts({
      operation,
      host,
      stack,
      model,
      visitor,
      promptTokensMax: readPromptTokensMax(record),
      promptTokensLeast,
      maxTokens,
      // Records contain how many turns the network has used, but do not identify the network.
      network: record.counters.networkTurns === undefined ? undefined : 'n-recorded',
      credential,
    }),
    counters: record.counters,
    fenced: record.fenced ?? false,
    outboxFull: record.outboxFull ?? false,
    nowMs: record.at,
  };
}
