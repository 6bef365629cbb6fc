/** Times in ms that determine how often a gateway proves, checks and repairs its snapshot, and publishes reports. */
export interface SnapshotIntervals {
  /** Interval at which the position of the log's end is requested. Each reply may prove that the snapshot is fresh. */
  readonly proveMs: number;
  /** Minimum pause between two background checks of all rows. */
  readonly verifyPauseMs: number;
  /** First and longest pause before a rebuild. Pauses are random, so that gateways do not all read the log at once. */
  readonly rebuildPauseMs: number;
  readonly rebuildPauseMsMax: number;
  /** First and longest pause before any other retry. They are short, so that a reachable log is noticed soon. */
  readonly retryPauseMs: number;
  readonly retryPauseMsMax: number;
  /** Time over which the downloads of snapshots are spread when a whole fleet starts at once. */
  readonly downloadSpreadMs: number;
  /** Interval at which traffic reports are published. */
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
