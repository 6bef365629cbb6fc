/** Ways in which a node can spoil an answer. Tests try all of them with every streaming API. */

/** Faults that occur after a good beginning. */
export const spoiltStreams = [
  { kind: 'cut', afterEvents: 4 },
  { kind: 'cut', afterEvents: 4, reset: true },
  { kind: 'clean-end-without-done', afterEvents: 4 },
  { kind: 'clean-end-without-done' },
  { kind: 'empty-chunk-end', afterEvents: 4 },
  { kind: 'error-frame-then-done', afterEvents: 4 },
  { kind: 'error-frame-no-done', afterEvents: 4 },
  { kind: 'finish-abort' },
  { kind: 'garbage', afterEvents: 4 },
  { kind: 'stall-after', afterEvents: 4 },
  { kind: 'stall-after', afterEvents: 4, commentEveryMs: 20 },
] as const;

/** Faults that occur before the first event. */
export const spoiltBeginnings = [
  { kind: 'refuse' },
  { kind: 'status', status: 500 },
  { kind: 'error-frame-then-done', afterEvents: 0 },
  { kind: 'cut', afterEvents: 0 },
  { kind: 'garbage', afterEvents: 0 },
] as const;
