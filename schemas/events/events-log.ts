/** Definitions of events about the log itself, and of notes that operators and control planes add. */

import { groupDigits } from '../grouped.ts';
import { type EventFieldTexts, event, fieldText } from './event-definition.ts';

function describeTokens({ tokens }: EventFieldTexts): string {
  return typeof tokens === 'number' ? `by ${tokens > 0 ? '+' : ''}${groupDigits(tokens)} tokens` : '';
}

function describeEnded({ kind, subject }: EventFieldTexts): string {
  return kind === 'person' ? `all sessions of ${String(subject)}` : 'a session';
}

export const logEvents = {
  'log.created': event({
    data: ({ z, id, signers, sha256 }) => ({
      log: id,
      /** Accepted public keys. If present, one of them must have signed every record. */
      signers: signers.optional(),
      /**
       * Origin of a log that `snapshot restore` (versions up to 0.2.0) began from the state of another log: the other log's
       * id and position, and the number of commits that restore the state. Nothing reads this field.
       */
      continues: z.object({ log: id, seq: z.int().min(1), hash: sha256, commits: z.int().min(1) }).optional(),
    }),
    sentence: (of) => ['created the log', fieldText(of, 'log')],
    sample: () => ({ log: 'another-log' }),
  }),
  /**
   * Replaces the signers from the next record on. The event is alone in its commit. A previous signer signs the commit or, if
   * the log had none, a new signer does. The accept rule in `shared/log/core/chain.ts` enforces this.
   */
  'log.signers_set': event({
    foldVersion: 2,
    data: ({ signers }) => ({ signers: signers.min(1) }),
    sentence: ({ signers }) => {
      const count = Array.isArray(signers) ? signers.length : 0;
      return ['set the signers of', 'the log', count === 0 ? '' : `to ${count === 1 ? 'one' : count}`];
    },
    sample: () => ({ signers: ['a key that signs nothing'] }),
  }),
};

export const notedEvents = {
  'usage.adjusted': event({
    data: ({ z, id, day }) => ({
      organisation: id,
      /** First day of the adjusted period. */
      period: day,
      /** Number of tokens to add to the usage of the period. A negative number gives allowance back. */
      tokens: z.int().min(-Number.MAX_SAFE_INTEGER).max(Number.MAX_SAFE_INTEGER),
    }),
    sentence: (of) => ['adjusted the usage of', fieldText(of, 'organisation'), describeTokens(of)],
    sample: (draw) => ({
      organisation: draw.name('organisation'),
      period: draw.name('period'),
      tokens: draw.upTo(2000) - 1000,
    }),
  }),
  /** Ends a session, all sessions of a person, or a sign-in link. Processes read this event directly from the log. */
  'session.ended': event({
    critical: false,
    data: ({ z, moment }) => ({
      kind: z.enum(['session', 'link', 'person']),
      /** SHA-256 of the id of the session or link, or the name of the person. */
      subject: z.string().min(1).max(64),
      /**
       * Person whose session it was or, for a link, organisation that issued it. The holder's bound on ended sessions counts
       * the event. Absent for an operator's link.
       */
      holder: z.string().min(1).max(64).optional(),
      /** Moment at which the session or link would have expired anyway. */
      until: moment,
    }),
    sentence: (of) => (of['kind'] === 'link' ? ['used', 'a sign-in link'] : ['ended', describeEnded(of)]),
    sample: (draw) => ({
      kind: 'session' as const,
      subject: `s-${draw.upTo(1_000_000)}`,
      until: '2026-01-01T00:00:00.000Z',
    }),
  }),
  /** States the digests of the state as it was immediately before this commit. */
  checkpoint: event({
    critical: false,
    data: ({ z }) => ({ foldVersion: z.int(), digests: z.record(z.string().max(64), z.string().max(64)) }),
    sentence: () => ['wrote', 'a checkpoint'],
    sample: () => ({ foldVersion: 0, digests: {} }),
  }),
  no_op: event({
    critical: false,
    data: () => ({}),
    sentence: () => ['wrote', 'nothing'],
    sample: () => ({}),
  }),
};
