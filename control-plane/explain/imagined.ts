/** Builds a hypothetical request for an explanation: its caller, read from the state, and the facts that decisions need. */
import type { ExplainRequest } from '../../schemas/records/explanations.ts';
import type { Database } from '../../shared/runtime/sqlite.ts';
import { createLookup } from '../../shared/snapshot/lookup.ts';
import { billingPeriod } from '../../shared/usage/period.ts';
import { CommandError } from '../core/command-error.ts';
import { findKey, findOrganisation } from '../state/tenants.ts';
import { buildFacts, type Question } from './question.ts';
import type { CounterFacts } from './recorded-counters.ts';

/** Calling organisation, and the billing period in which its tokens count. */
export interface Asker {
  readonly organisation: string;
  readonly period: string;
  /** Number of tokens by which operators have adjusted the organisation's usage in the period. May be negative. */
  readonly adjustment: number;
}

/** Returns the calling organisation, or undefined if there is none. Throws `NotFound` for an unknown key or organisation. */
export function findAsker(
  db: Database,
  { key, organisation }: Pick<ExplainRequest, 'key' | 'organisation'>,
  nowMs: number,
): Asker | undefined {
  const found = key === undefined ? undefined : findKey(db, key, nowMs);
  if (key !== undefined && found === undefined) throw notFound(`there is no key ${key}`);
  const id = organisation ?? found?.organisation;
  const owner = id === undefined ? undefined : findOrganisation(db, id);
  if (organisation !== undefined && owner === undefined)
    throw notFound(`there is no organisation ${organisation}`);
  if (owner === undefined) return undefined;
  const period = billingPeriod(owner.anchor, nowMs).start;
  return { organisation: owner.id, period, adjustment: createLookup(db).usageAdjustment(owner.id, period) };
}

function notFound(message: string): CommandError {
  return new CommandError('NotFound', message);
}

/** Builds the hypothetical request. `counters` contains the counter values that the request would meet. */
export function imagineQuestion(ask: ExplainRequest, counters: CounterFacts, nowMs: number): Question {
  const { host, path, model, promptTokens, maxTokens, key, organisation = '', visitor } = ask;
  const credential = key === undefined ? { organisation } : { keyId: key, header: 'authorization' as const };
  const facts = buildFacts({
    operation: path,
    model,
    promptTokensMax: promptTokens,
    maxTokens,
    credential,
    visitor: visitor ? 'v-explained' : undefined,
    host: host === 'shared' ? 'shared' : 'stack',
    stack: host === 'shared' ? undefined : host,
  });
  return { facts, counters, fenced: false, outboxFull: false, nowMs };
}
