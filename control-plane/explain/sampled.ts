/** Parses the recorded decisions that gateways return as a sample. */
import type { z } from 'zod';
import { gatewaySampledSchema, sampledMax } from '../../schemas/admin/gateway-requests.ts';
import { decisionRecordSchema } from '../../schemas/records/decisions.ts';
import { askedFields } from './question.ts';

/** Validates only the fields that are needed to decide a request again, because a sample has very many lines. */
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
  /** Number of requests that this record represents in the sample. */
  readonly requests: number;
}

/** Parses decisions of one organisation, or of all if undefined. Yields after each text. Omits lines that are not valid. */
export function* parseSample(
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
