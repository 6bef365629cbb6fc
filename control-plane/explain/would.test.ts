/**
 * Tests for each cause of a refusal that the rules can produce whether a command would turn the refusal, or why none would.
 */
import { expect, test } from 'vitest';
import { resolveHost } from '../../shared/decision/admission.ts';
import { type Cause, causeNames, causes } from '../../shared/decision/causes.ts';
import { memorySnapshot } from '../../shared/snapshot/open-snapshot.ts';
import { corpusHosts, factsOf, goldenCases, recordsOfCorpus } from '../../test/replay/decisions/corpus.ts';
import { decideInState, type Question } from './question.ts';
import { wouldTurn } from './would.ts';

/**
 * Causes for which no command helps: the request must be different, the stack or key is not the caller's, or only time helps.
 */
const withoutCommand: readonly Cause[] = [
  ...(['unknown host', 'fenced', 'fenced without a key'] as const),
  ...(['two Authorization headers', 'malformed', 'unknown'] as const),
  ...(['two different keys', 'no such path', 'foreign or missing stack'] as const),
  ...(['not listed without a plan', 'not listed by the stack', 'not listed by the pool'] as const),
  ...([
    'not listed now',
    'outbox full',
    'no visitors',
    'foreign stack',
    'no such stack',
    'wrong kind',
  ] as const),
];
/** Causes that only visitors can meet. The golden decisions do not include them. */
const ofVisitors: readonly Cause[] = [
  ...(['network turns', 'visitor tokens', 'visitor requests', 'visitor concurrency'] as const),
];

test('for each cause of a refusal a command exists that changes it, or none is known to exist', async () => {
  const records = recordsOfCorpus();
  const turned = new Map<Cause, readonly string[]>();
  for (const { atSeq, gateway, ...golden } of goldenCases) {
    if (golden.decision.kind !== 'refused' || gateway !== undefined) continue;
    const { counters, fenced = false, outboxFull = false, nowMs, ...facts } = factsOf({ ...golden, atSeq });
    const snapshot = memorySnapshot();
    snapshot.apply(records.slice(0, atSeq));
    const question: Question = { facts: withTarget(facts), counters, fenced, outboxFull, nowMs };
    const decided = decideInState(snapshot.db, question);
    const cause = decided.verdict.kind === 'refused' ? decided.verdict.refusal.cause : undefined;
    const would =
      cause === undefined || turned.has(cause) ? [] : await wouldTurn(snapshot, question, decided);
    if (cause !== undefined && would.length > 0) turned.set(cause, would);
    snapshot.db.close();
  }
  const ruled = causeNames.filter((name) => causes[name].stage === 'admission');
  const without = ruled.filter((name) => !turned.has(name) && !ofVisitors.includes(name));
  expect(without).toEqual(withoutCommand);
  // For these causes, the last suggestion is to remove the limit from the tier.
  for (const cause of ['context', 'allowance', 'requests', 'concurrency'] as const)
    expect(turned.get(cause)?.at(-1), cause).toMatch(/^headgate tier set \S+ --[a-z-]+ none\b/);
});

/** Replaces the host name with a target, because questions do not contain host names. */
function withTarget(facts: Question['facts']): Question['facts'] {
  try {
    return { ...facts, fixed: resolveHost(facts.host, corpusHosts) };
  } catch {
    return facts;
  }
}
