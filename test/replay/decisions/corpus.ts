/**
 * The golden decisions: one log, and requests at certain positions in it, each with the decision that every build must make.
 * `commits.jsonl` has one commit per line, and `decisions.jsonl` one request per line without the defaults of `factsOf`. Both
 * only ever grow, which `added-only.test.ts` checks. If a decision is changed on purpose, its line stays, and
 * `superseded.json` names it, the reason and its replacement. `{name}` in a credential stands for a key in `keys.json`. These
 * keys give access to nothing.
 */

import type { CounterFacts } from '../../../control-plane/explain/recorded-counters.ts';
import type { RefusalType } from '../../../schemas/api/refusals.ts';
import type { StoredEvent } from '../../../schemas/events/events.ts';
import type { HostNames } from '../../../shared/decision/admission.ts';
import { createLookup, type Lookup } from '../../../shared/snapshot/lookup.ts';
import { memorySnapshot } from '../../../shared/snapshot/open-snapshot.ts';
import { showOverlay } from '../../../shared/snapshot/overlay.ts';
import type { Snapshot } from '../../../shared/snapshot/snapshot.ts';
import { overlayForGateway } from '../../../shared/snapshot/waves.ts';
import { ChainWriter } from '../../support/commits.ts';
import { goldenText, linesOf } from '../golden-files.ts';
import type { ReplayedDecision, ReplayFacts, replayDecision } from './replay.ts';

export const corpusHosts: HostNames = {
  shared: new Set(['api.test', '127.0.0.1']),
  stackDomain: 'stacks.test',
};

/** 21 November 2026, 12:00 UTC, in ms since 1970. */
const corpusNowMs = Date.UTC(2026, 10, 21, 12);

type PlacedDecision = Extract<ReplayedDecision, { readonly kind: 'placed' }>;

/** The decision that is expected. A message needs to contain only certain words, because its wording may change. */
export type GoldenDecision =
  | {
      readonly kind: 'refused';
      readonly type: RefusalType;
      readonly status: number;
      readonly reason: string;
      readonly counted: boolean;
      readonly retryAfterSeconds?: number;
      readonly says?: readonly string[];
    }
  /** The file uses the member name `draw` for the capacity. */
  | (Omit<PlacedDecision, 'capacity'> & { readonly draw: PlacedDecision['capacity'] })
  | { readonly kind: 'listed'; readonly models: readonly string[] };

export interface GoldenCase
  extends Partial<Omit<ReplayFacts, 'counters' | 'promptTokensMax'>>,
    Pick<Partial<Record<'counters', Partial<CounterFacts>>>, 'counters'> {
  readonly name: string;
  readonly clause: string;
  /** Largest number of tokens that the prompt can have. */
  readonly promptTokens?: number;
  /** `seq` of the last commit that the gateway has read when it decides. */
  readonly atSeq: number;
  /** Name of the gateway, which decides whether an open change applies to it. Without a name, no change applies. */
  readonly gateway?: string;
  readonly decision: GoldenDecision;
}

function parsedLines<Line>(name: string): Line[] {
  return linesOf(`decisions/${name}`).map((line) => JSON.parse(line) as Line);
}

const keys = JSON.parse(goldenText('decisions/keys.json')) as Record<string, string>;

/** A golden decision that no longer holds. */
export interface SupersededCase {
  readonly name: string;
  /** Name of the case that has the same facts and replaces this one. */
  readonly instead: string;
  readonly because: string;
}

export const superseded = JSON.parse(goldenText('decisions/superseded.json')) as readonly SupersededCase[];

/** All cases, including superseded ones. */
export const recordedCases: readonly GoldenCase[] = parsedLines<GoldenCase>('decisions.jsonl');

export const goldenCases: readonly GoldenCase[] = recordedCases.filter(
  ({ name }) => !superseded.some((each) => each.name === name),
);

function credential(text: string | undefined): string | undefined {
  return text?.replace(/\{(.+?)\}/g, (_, name: string) => {
    const key = keys[name];
    if (key === undefined) throw new Error(`there is no key ${name} in the corpus`);
    return key;
  });
}

/** Returns the facts of a case, with defaults filled in. */
export function factsOf({
  name: _name,
  clause: _clause,
  atSeq: _atSeq,
  gateway: _gateway,
  decision: _decision,
  promptTokens: promptTokensMax = 10,
  ...facts
}: GoldenCase): ReplayFacts {
  return {
    host: 'api.test',
    method: 'POST',
    path: '/v1/chat/completions',
    model: '',
    promptTokensMax,
    maxTokens: undefined,
    nowMs: corpusNowMs,
    ...facts,
    authorization: credential(facts.authorization),
    xApiKey: credential(facts.xApiKey),
    counters: { windowUsed: 0, inFlight: 0, poolTokens: 0, freeTurns: 0, ...facts.counters },
  };
}

export type GoldenPosition = Pick<GoldenCase, 'atSeq' | 'gateway'>;

export interface Corpus {
  /** Returns the look-up at a position that a case names, as the case's gateway reads it. */
  at(position: number | GoldenPosition): Lookup;
  close(): void;
}

/**
 * Opens the corpus, with one snapshot for each position that a case names, and separate ones for gateways in the wave of an
 * open change.
 */
export function openCorpus(): Corpus {
  const records = recordsOfCorpus();
  const opened = new Map<string, { readonly snapshot: Snapshot; readonly lookup: Lookup }>();
  return {
    at(position) {
      const { atSeq: seq, gateway }: GoldenPosition =
        typeof position === 'number' ? { atSeq: position } : position;
      const name = JSON.stringify([seq, gateway]);
      const there = opened.get(name);
      if (there) return there.lookup;
      const snapshot = memorySnapshot();
      snapshot.apply(records.slice(0, seq));
      if (gateway !== undefined && overlayForGateway(snapshot.db, gateway)) snapshot.db.exec(showOverlay);
      const lookup = createLookup(snapshot.db);
      if (lookup.position() !== seq) throw new Error(`the log of the corpus has no position ${seq}`);
      opened.set(name, { snapshot, lookup });
      return lookup;
    },
    close() {
      for (const { snapshot } of opened.values()) snapshot.db.close();
      opened.clear();
    },
  };
}

/** Returns the corpus as log records. Their events come from the files, and the chain is computed. */
export function recordsOfCorpus() {
  const writer = new ChainWriter({ log: 'golden-decisions' });
  const commits = parsedLines<{ readonly seq: number; readonly events: readonly StoredEvent[] }>(
    'commits.jsonl',
  );
  return [
    writer.open(),
    ...commits.map(({ seq, events }) => {
      if (writer.head.seq + 1 !== seq) throw new Error(`commit ${seq} of the corpus is out of order`);
      return writer.addStored(events);
    }),
  ];
}

export function differences(golden: GoldenDecision, decision: ReplayedDecision): string[] {
  const { says, ...wanted } = golden.kind === 'refused' ? golden : { ...golden, says: undefined };
  const { message, ...got } = comparable(decision);
  const found = [];
  const [want, have] = [sorted(wanted), sorted(got)];
  if (want !== have) found.push(`must be ${want}, is ${have}`);
  for (const words of says ?? []) if (!message?.includes(words)) found.push(`"${message}" lacks "${words}"`);
  return found;
}

/** Returns the decision in the file's format, without its message. */
export function comparable(
  decision: ReplayedDecision,
): { readonly message?: string } & Record<string, unknown> {
  if (decision.kind === 'refused') return { ...decision };
  if (decision.kind === 'placed') {
    const { capacity, ...placed } = decision;
    return { ...placed, draw: capacity };
  }
  const document = JSON.parse(decision.body) as { id: string; data?: { id: string }[] };
  return { kind: 'listed', models: (document.data ?? [document]).map(({ id }) => id) };
}

function sorted(fields: object): string {
  return JSON.stringify(Object.fromEntries(Object.entries(fields).sort(([a], [b]) => (a < b ? -1 : 1))));
}

const oneAnswer: readonly RefusalType[] = ['Unauthorized', 'TargetNotServingError'];

/**
 * Returns the refusals whose causes must look alike, each with the distinct answers that its cases get. There should be
 * exactly one answer each.
 */
export function answersByType(corpus: Corpus, replay: typeof replayDecision): Map<RefusalType, Set<string>> {
  const answers = new Map<RefusalType, Set<string>>(oneAnswer.map((type) => [type, new Set()]));
  for (const each of goldenCases) {
    if (each.decision.kind !== 'refused') continue;
    const decided = replay(corpus.at(each), factsOf(each), corpusHosts);
    if (decided.kind === 'refused')
      answers.get(each.decision.type)?.add(JSON.stringify([decided.type, decided.status, decided.message]));
  }
  return answers;
}

/** Decides all or the given cases again and describes those that differ. An exception counts as a difference. */
export function failingCases(
  corpus: Corpus,
  replay: typeof replayDecision,
  cases: readonly GoldenCase[] = goldenCases,
): string[] {
  return cases.flatMap((each) => {
    try {
      return differences(each.decision, replay(corpus.at(each), factsOf(each), corpusHosts)).map(
        (difference) => `${each.name}: ${difference}`,
      );
    } catch (error) {
      return [`${each.name}: threw ${String(error)}`];
    }
  });
}
