/** What is asked: a request as it might be made, or one that a gateway recorded. Becomes the facts of a decision. */

import { operations } from '../../schemas/api/operations.ts';
import { type DecisionRecord, promptTokensMaxOf } from '../../schemas/records/decisions.ts';
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
import { type CounterFacts, countersOf } from './recorded-counters.ts';

export interface Question {
  readonly facts: AdmissionFacts;
  readonly counters: CounterFacts;
  readonly fenced: boolean;
  readonly outboxFull: boolean;
  readonly nowMs: number;
}

export interface Decided {
  readonly verdict: Verdict;
  readonly trace: Trace;
}

/** Names of hosts are a setting of each gateway; here a target is given instead. */
const noHosts: HostNames = { shared: new Set(), stackDomain: 'invalid' };

/** No model can have this id, so it decides as any name that nobody knows. */
const unknownModel = '(unknown)';

export function decideOn(db: Database, question: Question): Decided {
  return decideWith(createLookup(db), question);
}

/** The same, for many questions on one state. */
export function decideWith(
  lookup: Lookup,
  { facts, counters, fenced, outboxFull, nowMs }: Question,
): Decided {
  const trace = new Trace();
  const of = { lookup, hosts: noHosts };
  return { verdict: admission(of, facts, countersOf(counters), { fenced, outboxFull, nowMs }, trace), trace };
}

/** The verdict alone, for very many questions: nobody reads their traces. */
export function verdictWith(lookup: Lookup, question: Question): Verdict {
  const { facts, counters, fenced, outboxFull, nowMs } = question;
  return admission({ lookup, hosts: noHosts }, facts, countersOf(counters), { fenced, outboxFull, nowMs });
}

interface Asked
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

export function factsOf(asked: Asked): AdmissionFacts {
  const { operation, host, stack, model = unknownModel, credential } = asked;
  // Each by its name: to spread objects costs as much as a decision.
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

/** Whose rows its gateway read, or would have read at another position. At its own one the record says so. */
export function viewOf({ gateway, position, change }: DecisionRecord, at: number): StateView {
  if (at !== position) return { gateway };
  return change === undefined ? 'base' : 'wave';
}

/** What a question is made of; the rest of a record is about its answer. */
export const askedFields = {
  ...{ at: true, host: true, stack: true, operation: true, key: true, header: true, fault: true },
  ...{ carried: true, visitor: true, model: true, promptTokensMax: true, promptTokens: true },
  promptTokensLeast: true,
  ...{ maxTokens: true, counters: true, fenced: true, outboxFull: true },
} as const satisfies Partial<Record<keyof DecisionRecord, true>>;
export type AskedRecord = Pick<DecisionRecord, keyof typeof askedFields>;

/** The facts of a recorded decision; what its gateway knew of the headers is in it, and no more. */
export function questionOf(record: AskedRecord): Question {
  const { key, header = 'authorization', fault = 'missing', carried = false } = record;
  const { operation, host, stack, model, visitor, promptTokensLeast, maxTokens } = record;
  const isOneKey = key !== undefined && fault !== 'two different keys';
  const credential: RecordedCredential = isOneKey ? { keyId: key, header } : { fault, carried };
  return {
    facts: factsOf({
      operation,
      host,
      stack,
      model,
      visitor,
      promptTokensMax: promptTokensMaxOf(record),
      promptTokensLeast,
      maxTokens,
      // Which network it was is not recorded, only what it had used.
      network: record.counters.networkTurns === undefined ? undefined : 'n-recorded',
      credential,
    }),
    counters: record.counters,
    fenced: record.fenced ?? false,
    outboxFull: record.outboxFull ?? false,
    nowMs: record.at,
  };
}
