/** A request that might be made: who asks, by the state, and what it would be judged by. */
import type { ExplainRequest } from '../../schemas/records/explanations.ts';
import type { Database } from '../../shared/runtime/sqlite.ts';
import { createLookup } from '../../shared/snapshot/lookup.ts';
import { periodOf } from '../../shared/usage/period.ts';
import { CommandError } from '../core/command-error.ts';
import { findKey, findOrganisation } from '../state/tenants.ts';
import { factsOf, type Question } from './question.ts';
import type { CounterFacts } from './recorded-counters.ts';

/** The organisation that asks, and the period that its tokens are counted in. */
export interface Asker {
  readonly organisation: string;
  readonly period: string;
  /** Tokens that an operator added or subtracted. */
  readonly adjustment: number;
}

/** undefined: nobody whose tokens are counted. Throws NotFound for a key or an organisation that is not there. */
export function askerOn(
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
  const period = periodOf(owner.anchor, nowMs).start;
  return { organisation: owner.id, period, adjustment: createLookup(db).usageAdjustment(owner.id, period) };
}

function notFound(message: string): CommandError {
  return new CommandError('NotFound', message);
}

/** `counters`: what it would find counted. */
export function imagined(ask: ExplainRequest, counters: CounterFacts, nowMs: number): Question {
  const { host, path, model, promptTokens, maxTokens, key, organisation = '', visitor } = ask;
  const credential = key === undefined ? { organisation } : { keyId: key, header: 'authorization' as const };
  const facts = factsOf({
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
