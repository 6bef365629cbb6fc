/** The lines of a sample of recorded decisions, read where they are decided again. */
import type { z } from 'zod';
import { gatewaySampledSchema, sampledMax } from '../../schemas/admin/gateway-requests.ts';
import { decisionRecordSchema } from '../../schemas/records/decisions.ts';
import { askedFields } from './question.ts';

/** What is not read is not checked: a sample has very many lines. */
const recordSchema = decisionRecordSchema.pick({
  ...askedFields,
  req: true,
  organisation: true,
  stage: true,
});
const lineSchema = gatewaySampledSchema.extend({ decision: recordSchema });

export type SampledRecord = z.output<typeof recordSchema>;
export interface SampledDecision {
  readonly record: SampledRecord;
  /** So many requests it stands for. */
  readonly requests: number;
}

/** Of one organisation, or of all, text after text; what cannot be read is left out. */
export function* sampledIn(
  texts: readonly string[],
  organisation: string | undefined,
): Generator<void, SampledDecision[]> {
  const found: SampledDecision[] = [];
  for (const text of texts) {
    for (const line of text.split('\n')) {
      if (line === '' || found.length >= sampledMax) continue;
      const { success, data } = lineSchema.safeParse(JSON.parse(line));
      if (!success || (organisation !== undefined && data.decision.organisation !== organisation)) continue;
      found.push({ record: data.decision, requests: data.requests });
    }
    yield;
  }
  return found;
}
