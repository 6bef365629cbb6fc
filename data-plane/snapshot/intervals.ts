/** Intervals at which a gateway proves, verifies and recovers its snapshot and publishes reports. */
export interface SnapshotIntervals {
  /** Time between two requests for the end of the log. Each may prove freshness. */
  readonly proveMs: number;
  /** Minimum pause between two passes of the background verification. */
  readonly verifyPauseMs: number;
  /** Pause before the first rebuild, and longest pause. Random, so that a fleet does not replay all at once. */
  readonly rebuildPauseMs: number;
  readonly rebuildPauseMsMax: number;
  /** Pause before other retries, and the longest one. Short, because a log that returns must be found within seconds. */
  readonly retryPauseMs: number;
  readonly retryPauseMsMax: number;
  /** Time over which the downloads of a fleet that starts at once are spread. */
  readonly downloadSpreadMs: number;
  /** Time between two traffic reports. */
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
