/** Events of the log itself, and notes that operators and control planes add. */

import { grouped } from '../grouped.ts';
import { type EventFieldTexts, event, textOf } from './event-definition.ts';

function tokensOf({ tokens }: EventFieldTexts): string {
  return typeof tokens === 'number' ? `by ${tokens > 0 ? '+' : ''}${grouped(tokens)} tokens` : '';
}

function endedOf({ kind, subject }: EventFieldTexts): string {
  if (kind === 'link') return 'a sign-in link';
  return kind === 'person' ? `all sessions of ${String(subject)}` : 'a session';
}

export const logEvents = {
  'log.created': event({
    data: ({ z, id, signers, sha256 }) => ({
      log: id,
      /** Where present, every record must be signed by one. */
      signers: signers.optional(),
      /**
       * Set in logs that `snapshot restore` of builds up to 0.2.0 began from the state of another log: that log, the position of the
       * state, and the number of commits that bring it back. Nothing reads it.
       */
      continues: z.object({ log: id, seq: z.int().min(1), hash: sha256, commits: z.int().min(1) }).optional(),
    }),
    sentence: (of) => ['created the log', textOf(of, 'log')],
    sample: () => ({ log: 'another-log' }),
  }),
  /**
   * From the next record on, these sign, and nobody else. It stands alone in its commit, which one of the signers before
   * it must sign; where the log has none, one of those named. The accept rule reads it (shared/log/core/chain.ts).
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
      /** First day of the period that is adjusted. */
      period: day,
      /** Added to the period's tokens; negative gives allowance back. */
      tokens: z.int().min(-Number.MAX_SAFE_INTEGER).max(Number.MAX_SAFE_INTEGER),
    }),
    sentence: (of) => ['adjusted the usage of', textOf(of, 'organisation'), tokensOf(of)],
    sample: (draw) => ({
      organisation: draw.name('organisation'),
      period: draw.name('period'),
      tokens: draw.upTo(2000) - 1000,
    }),
  }),
  /**
   * A session of the console, all sessions of a person, or a sign-in link is over. No row of the state: what accepts
   * sessions reads it from the log.
   */
  'session.ended': event({
    critical: false,
    data: ({ z, moment }) => ({
      kind: z.enum(['session', 'link', 'person']),
      /** SHA-256 of the id of the session or the link; the name of the person. */
      subject: z.string().min(1).max(64),
      /** In whose name many can end: the person, or the organisation whose links they came by. Absent: an operator's link, or of an earlier version. */
      holder: z.string().min(1).max(64).optional(),
      /** After this moment it would not be accepted anyway. */
      until: moment,
    }),
    sentence: (of) => ['ended', endedOf(of)],
    sample: (draw) => ({
      kind: 'session' as const,
      subject: `s-${draw.upTo(1_000_000)}`,
      until: '2026-01-01T00:00:00.000Z',
    }),
  }),
  /** Digests of the state right before this commit. */
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
