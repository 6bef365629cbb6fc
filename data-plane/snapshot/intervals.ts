/** At which intervals a gateway proves, verifies and recovers its snapshot, and reports. */
export interface SnapshotIntervals {
  /** Between two requests for the end of the log, each of which may prove freshness. */
  readonly proveMs: number;
  /** The shortest pause between two passes of the background verification. */
  readonly verifyPauseMs: number;
  /** Before the first rebuild, and the longest before any: a fleet that found the same fault must not replay at once. */
  readonly rebuildPauseMs: number;
  readonly rebuildPauseMsMax: number;
  /** Before other retries, and the longest: a log that comes back must be found within seconds. */
  readonly retryPauseMs: number;
  readonly retryPauseMsMax: number;
  /** Over this time the downloads of a fleet that starts at once are spread. */
  readonly downloadSpreadMs: number;
  /** Between two reports of what was counted of the requests. */
  readonly trafficMs: number;
}

export const snapshotIntervals: SnapshotIntervals = {
  proveMs: 2000,
  verifyPauseMs: 3000,
  rebuildPauseMs: 2000,
  rebuildPauseMsMax: 30_000,
  retryPauseMs: 1000,
  retryPauseMsMax: 5000,
  downloadSpreadMs: 1000,
  trafficMs: 10_000,
};
