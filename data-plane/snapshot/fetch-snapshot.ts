/**
 * Starts a gateway from a control plane's snapshot instead of the log's first record. What comes is untrusted until it was
 * checked: its size, its SHA-256, its fold version, its rows against their digests, and its position and hash against the
 * log where that can be reached. Any fault only means that the log is replayed from its beginning.
 * That its rows are what the log holds cannot be seen before the next checkpoint: it is asked for only where the connection
 * itself is authenticated (https) or does not leave this machine.
 */
import { createHash } from 'node:crypto';
import { createWriteStream, mkdirSync, renameSync, rmSync } from 'node:fs';
import { dirname } from 'node:path';
import { Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { type Dispatcher, request } from 'undici';
import { type ControlLog, LogUnavailable } from '../../shared/log/core/control-log.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import { type Clock, systemClock } from '../../shared/runtime/retry.ts';
import { checkIdentity } from '../../shared/snapshot/log-identity.ts';
import { openExisting } from '../../shared/snapshot/open-snapshot.ts';
import { verify } from '../../shared/snapshot/verify.ts';
import { snapshotIntervals } from './intervals.ts';

export interface FetchOptions {
  /** Where the snapshot is to stand. */
  readonly path: string;
  /** Base addresses of control planes, asked in a random order. */
  readonly controlPlanes: readonly string[];
  readonly token: string | undefined;
  readonly log: ControlLog;
  /** Id of the log, where it could be read. */
  readonly logId: string | undefined;
  readonly logger: Logger;
  readonly silentMsMax?: number;
  /** Over this time the attempts of a fleet are spread. */
  readonly spreadMs?: number;
  readonly clock?: Clock;
}

const bytesMax = 64 * 1024 ** 3;
const headersTimeoutMs = 60_000;
/** Between two chunks of a snapshot: a control plane that falls silent must not hold up a start for minutes. */
const silentMsMaxDefault = 30_000;
const attemptsPerControlPlane = 2;
/** A control plane sends few snapshots at a time; how long to retry while others are before this one. */
const busyMsMax = 120_000;
const retryAfterSecondsMax = 30;

/** Throws an Error that names the next step where a snapshot would come over a connection on which anybody could change it. */
export function checkSnapshotSources(controlPlanes: readonly string[]): void {
  for (const base of controlPlanes) {
    if (!URL.canParse(base)) throw new Error(`--control-plane ${base} is no address: use https://HOST:PORT`);
    const { protocol, hostname } = new URL(base);
    if (protocol === 'https:' || (protocol === 'http:' && isLoopback(hostname))) continue;
    throw new Error(
      `--control-plane ${base} is neither https nor on this machine: on its way anybody could change a snapshot, or read ` +
        'the token; give the control plane --tls-cert and --tls-key and use https, or, where the network between is ' +
        'trusted, set --insecure-snapshots',
    );
  }
}

function isLoopback(hostname: string): boolean {
  return hostname === 'localhost' || hostname === '[::1]' || /^127\.\d+\.\d+\.\d+$/.test(hostname);
}

/** True where a checked snapshot now stands at `path`. */
export async function fetchSnapshot(options: FetchOptions): Promise<boolean> {
  const { controlPlanes, path, token, clock = systemClock } = options;
  const { spreadMs = snapshotIntervals.downloadSpreadMs } = options;
  if (token === undefined) return false;
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  for (let attempt = 0; attempt < attemptsPerControlPlane; attempt++) {
    for (const base of [...controlPlanes].sort(() => Math.random() - 0.5)) {
      if (await fetchFrom(base, token, options)) return true;
      await clock.sleep(clock.random() * spreadMs);
    }
  }
  return false;
}

async function fetchFrom(base: string, token: string, options: FetchOptions): Promise<boolean> {
  const { path, logger } = options;
  const part = `${path}.part`;
  try {
    await download(base, token, part, options);
    await check(part, options);
    renameSync(part, path);
    return true;
  } catch (error) {
    logger.warn(
      { from: base, reason: error instanceof Error ? error.message : String(error) },
      'no snapshot',
    );
    return false;
  } finally {
    for (const suffix of ['', '-wal', '-shm']) rmSync(part + suffix, { force: true });
  }
}

/** The answer, once the control plane is not busy any more. */
async function askUntilFree(
  base: string,
  token: string,
  { clock = systemClock, silentMsMax = silentMsMaxDefault }: FetchOptions,
): Promise<Dispatcher.ResponseData> {
  const until = clock.now() + busyMsMax;
  for (;;) {
    const answer = await request(`${base}/admin/v1/snapshot`, {
      headers: { authorization: `Bearer ${token}` },
      headersTimeout: headersTimeoutMs,
      bodyTimeout: silentMsMax,
    });
    const seconds = Number(answer.headers['retry-after']);
    if (answer.statusCode !== 503 || !(seconds >= 1) || clock.now() > until) return answer;
    await answer.body.dump();
    await clock.sleep(Math.min(seconds, retryAfterSecondsMax) * 1000 * (0.5 + clock.random()));
  }
}

async function download(base: string, token: string, part: string, options: FetchOptions): Promise<void> {
  const answer = await askUntilFree(base, token, options);
  if (answer.statusCode !== 200) {
    await answer.body.dump();
    throw new Error(`the control plane answered ${answer.statusCode}`);
  }
  const hash = createHash('sha256');
  let bytes = 0;
  const measure = new Transform({
    transform: (chunk: Buffer, _encoding, done) => {
      bytes += chunk.length;
      hash.update(chunk);
      done(bytes > bytesMax ? new Error('the snapshot is too large') : null, chunk);
    },
  });
  const file = createWriteStream(part, { mode: 0o600 });
  try {
    await pipeline(answer.body, measure, file);
  } finally {
    // A file that is still being opened would be there again after the caller has removed it.
    if (!file.closed) await new Promise<void>((resolve) => file.once('close', () => resolve()));
  }
  if (hash.digest('hex') !== answer.headers['x-headgate-sha256'])
    throw new Error('the snapshot was damaged on its way');
}

/** Rejects where the file is not a whole snapshot of this log and this fold. */
async function check(part: string, { log, logId }: FetchOptions): Promise<void> {
  const snapshot = openExisting(part, { readOnly: false });
  try {
    if (snapshot.seq === 0) throw new Error('the snapshot is empty');
    if (logId !== undefined && snapshot.log !== logId)
      throw new Error(`the snapshot is of log ${snapshot.log}, not ${logId}`);
    const { differing } = verify(snapshot.db);
    if (differing.length > 0)
      throw new Error(`rows of ${differing.join(', ')} do not add up to their digest`);
    await checkIdentity(log, snapshot).catch((error: unknown) => {
      // Compared as soon as the log is back, before anything is folded on.
      if (!(error instanceof LogUnavailable)) throw error;
    });
  } finally {
    snapshot.close();
  }
}
