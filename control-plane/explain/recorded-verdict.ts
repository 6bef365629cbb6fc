/** Converts the verdict that a gateway recorded into the form that explanations use. */
import type { DecisionRecord } from '../../schemas/records/decisions.ts';
import type { ExplainedVerdict } from '../../schemas/records/explanations.ts';
import { deriveVerdict } from '../../schemas/records/verdict.ts';

export function recordedVerdict(record: DecisionRecord): ExplainedVerdict {
  const { outcome, status, endedBy, phase } = deriveVerdict(record);
  const { type, message } = record;
  return {
    ...{ outcome, served: outcome === 'served' },
    ...(status !== undefined && { status }),
    ...(type !== undefined && { type }),
    ...(message !== undefined && { message }),
    ...(endedBy !== undefined && { endedBy: endedBy === 'deadline' ? 'gateway' : endedBy }),
    ...(phase !== undefined && { phase }),
  };
}

/** Returns why a request ended early, with `it` for whoever ended it. Records of version 0.2.0 contain no reason. */
export function endReason({ finish = '' }: DecisionRecord): string {
  const [, by, reason = 'it ended early'] = /^(\w+): (.+)/.exec(finish) ?? [];
  return reason.startsWith(`the ${by} `) ? reason.replace(`the ${by}`, 'it') : reason;
}

const moments = {
  undecided: ' before it was decided',
  unanswered: ' before its answer began',
  answering: '',
};

/** Describes who ended a request, when and why. Members do not see the names of pool nodes. */
export function endedText(record: DecisionRecord, isOperator: boolean): string {
  const { endedBy, phase = 'answering' } = recordedVerdict(record);
  const { node, capacity, ms } = record;
  const isShown = node !== undefined && (isOperator || capacity !== 'pool');
  const by = endedBy === 'node' && isShown ? node : `the ${endedBy}`;
  const after = ms.end < 1000 ? `${Math.round(ms.end)} ms` : `${(ms.end / 1000).toFixed(1)} s`;
  return `ended by ${by}${moments[phase]}: ${endReason(record)} after ${after}; nothing was billed`;
}
