/** The lines of a sample of recorded decisions, read where they are decided again. */
import type { DecisionRecord } from '../../schemas/decisions.ts';
import { gatewaySampledSchema, sampledMax } from '../../schemas/gateway-requests.ts';

export interface SampledDecision {
  readonly record: DecisionRecord;
  /** So many requests it stands for. */
  readonly requests: number;
}

/** Of one organisation, or of all; what cannot be read is left out. */
export function sampledIn(texts: readonly string[], organisation: string | undefined): SampledDecision[] {
  const found: SampledDecision[] = [];
  for (const text of texts)
    for (const line of text.split('\n')) {
      if (line === '' || found.length >= sampledMax) continue;
      const { success, data } = gatewaySampledSchema.safeParse(JSON.parse(line));
      if (!success || (organisation !== undefined && data.decision.organisation !== organisation)) continue;
      found.push({ record: data.decision, requests: data.requests });
    }
  return found;
}
