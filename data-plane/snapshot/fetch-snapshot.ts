/**
 * Downloads a snapshot from a control plane, so that a new gateway need not replay the whole log. Before it is used, its
 * size, SHA-256, fold version and the digests of its rows are checked, and its position and hash are compared with the log if
 * that is reachable. If any check fails, the gateway replays the log from the beginning.
 *
 * Until the next checkpoint, nothing proves that the rows match the log. So snapshots are only requested over https or from
 * this machine.
 */
import { createHash, type Hash } from 'node:crypto';
import { createReadStream, createWriteStream, mkdirSync, renameSync, rmSync } from 'node:fs';
import { stat, statfs } from 'node:fs/promises';
import type { IncomingMessage } from 'node:http';
import { dirname } from 'node:path';
import { Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { adminPrefix, operationRoute } from '../../schemas/admin/admin-routes.ts';
import { type ControlLog, LogUnavailable } from '../../shared/log/core/control-log.ts';
import { httpGet } from '../../shared/runtime/http-get.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import { type Clock, systemClock } from '../../shared/runtime/retry.ts';
import { waits } from '../../shared/runtime/waits.ts';
import { checkIdentity } from '../../shared/snapshot/log-identity.ts';
import { openExisting } from '../../shared/snapshot/open-snapshot.ts';
import { verifyInTurns } from '../../shared/snapshot/verify.ts';
import { snapshotIntervals } from './intervals.ts';

export interface FetchOptions {
  /** Path at which the snapshot will be stored. */
  readonly path: string;
  /** Base URLs of control planes, which are tried in random order. */
  readonly controlPlanes: readonly string[];
  readonly token: string | undefined;
  readonly log: ControlLog;
  /** Id of the log, or undefined if the log could not be read. */
  readonly logId: string | undefined;
  readonly logger: Logger;
  readonly headMsMax?: number;
  readonly silentMsMax?: number;
  readonly wholeMsMax?: number;
  /** Time in ms after which a download's minimum speed is enforced. */
  readonly paceFromMs?: number;
  /** Time in ms over which the downloads of a whole fleet are spread. */
  readonly spreadMs?: number;
  readonly clock?: Clock;
}

const bytesMax = 64 * 1024 ** 3;
/** Minimum speed of a download in bytes per ms, and the time in ms from which it applies. Slower ones are abandoned. */
const bytesPerMsMin = 64;
const paceFromMsDefault = 30_000;
/** Share of the free disk space that a snapshot may use. The rest is left for folding and for the gateway's own files. */
const shareOfFreeDisk = 1 / 2;
const refusalBytesMax = 16 * 1024;
const refusalMsMax = 5000;
const attemptsPerControlPlane = 2;
/** Maximum time in ms to wait for a busy control plane, which sends only a few snapshots at a time. */
const busyMsMax = 120_000;
const retryAfterSecondsMax = 30;

/** Throws if others on the network could change a snapshot on its way. The error says what to do next. */
export function checkSnapshotSources(controlPlanes: readonly string[]): void {
  for (const base of controlPlanes) {
    if (!URL.canParse(base))
      throw new Error(`--control-plane ${base} is not an address; use https://HOST:PORT`);
    const { protocol, hostname } = new URL(base);
    if (protocol === 'https:' || (protocol === 'http:' && isLoopback(hostname))) continue;
    throw new Error(
      `--control-plane ${base} is neither https nor on this machine, so others on the network could change a snapshot, or read ` +
        'the token; give the control plane --tls-cert and --tls-key and use https, or, if you trust the network,' +
        ' set --insecure-snapshots',
    );
  }
}

function isLoopback(hostname: string): boolean {
  return hostname === 'localhost' || hostname === '[::1]' || /^127\.\d+\.\d+\.\d+$/.test(hostname);
}

/** Tries to download a snapshot to `path`. Returns whether the snapshot was stored and passed all checks. */
export async function fetchSnapshot(options: FetchOptions): Promise<boolean> {
  const { controlPlanes, path, token, clock = systemClock } = options;
  const { spreadMs = snapshotIntervals.downloadSpreadMs } = options;
  if (token === undefined) return false;
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  const unfit = new Set<string>();
  const part: Part = { path: `${path}.part`, tag: undefined };
  try {
    for (let attempt = 0; attempt < attemptsPerControlPlane; attempt++) {
      for (const base of controlPlanes.filter((each) => !unfit.has(each)).sort(() => Math.random() - 0.5)) {
        const outcome = await tryControlPlane(base, token, part, options);
        if (outcome === 'fetched') return true;
        if (outcome === 'unfit') unfit.add(base);
        await clock.sleep(clock.random() * spreadMs);
      }
    }
    return false;
  } finally {
    discard(part);
  }
}

/** File with the part of a snapshot that has arrived. After an interruption, the download continues after this part. */
interface Part {
  readonly path: string;
  /** Tag of the snapshot to which this part belongs, or undefined if the part cannot be continued. */
  tag: string | undefined;
}

function discard(part: Part): void {
  part.tag = undefined;
  for (const suffix of ['', '-wal', '-shm']) rmSync(part.path + suffix, { force: true });
}

/** Thrown if it is no use to ask the same control plane again. */
class SourceUnfit extends Error {
  override readonly name = 'SourceUnfit';
}

type Outcome = 'fetched' | 'failed' | 'unfit';

async function tryControlPlane(
  base: string,
  token: string,
  part: Part,
  options: FetchOptions,
): Promise<Outcome> {
  const { path, logger } = options;
  try {
    await download(base, token, part, options);
    part.tag = undefined;
    await check(part.path, options);
    renameSync(part.path, path);
    return 'fetched';
  } catch (error) {
    if (part.tag === undefined || error instanceof SourceUnfit) discard(part);
    logger.warn(
      { from: base, reason: error instanceof Error ? error.message : String(error) },
      'no snapshot could be fetched',
    );
    return error instanceof SourceUnfit ? 'unfit' : 'failed';
  }
}

/** Requests the snapshot. Repeats the request for as long as the control plane is busy. */
async function askUntilFree(
  base: string,
  headers: Readonly<Record<string, string>>,
  options: FetchOptions,
): Promise<IncomingMessage> {
  const { clock = systemClock, headMsMax = waits.snapshotHead.ms } = options;
  const { silentMsMax = waits.snapshotPiece.ms, wholeMsMax = waits.snapshotWhole.ms } = options;
  const until = clock.now() + busyMsMax;
  for (;;) {
    const answer = await httpGet(`${base}${adminPrefix}${operationRoute('snapshot.get').path}`, {
      ...{ headers, headMs: headMsMax, silentMs: silentMsMax },
      signal: AbortSignal.timeout(wholeMsMax),
    });
    const seconds = Number(answer.headers['retry-after']);
    if (answer.statusCode !== 503 || !(seconds >= 1) || clock.now() > until) return answer;
    await readRefusal(answer);
    await clock.sleep(Math.min(seconds, retryAfterSecondsMax) * 1000 * (0.5 + clock.random()));
  }
}

/** Reads an error response to its end, so that the connection can be reused. Ignores the text. */
async function readRefusal(answer: IncomingMessage): Promise<void> {
  const timer = setTimeout(() => answer.destroy(), refusalMsMax);
  const pieces: AsyncIterable<Buffer> = answer;
  let bytes = 0;
  try {
    for await (const piece of pieces) {
      bytes += piece.length;
      if (bytes > refusalBytesMax) return;
    }
  } finally {
    clearTimeout(timer);
  }
}

/** Returns the size that the control plane states. Throws `SourceUnfit` if it states none or the disk lacks space. */
async function statedBytes({ headers }: IncomingMessage, folder: string): Promise<number> {
  const stated = Number(headers['content-length']);
  if (!Number.isSafeInteger(stated))
    throw new SourceUnfit('the control plane did not send the size of the snapshot');
  const { bavail, bsize } = await statfs(folder);
  const room = Math.min(bytesMax, Math.floor(bavail * bsize * shareOfFreeDisk));
  if (stated > room)
    throw new SourceUnfit(`a snapshot of ${stated} bytes is too large; half of the free disk is ${room}`);
  return stated;
}

/** Creates a stream that counts and hashes what arrives. Fails with `SourceUnfit` if that is too much or too slow. */
function measureDownload(hash: Hash, stated: number, paceFromMs: number): Transform {
  const startMs = performance.now();
  let bytes = 0;
  return new Transform({
    transform: (chunk: Buffer, _encoding, done) => {
      bytes += chunk.length;
      hash.update(chunk);
      const slowMs = performance.now() - startMs - paceFromMs;
      if (bytes > stated) done(new SourceUnfit('the snapshot is larger than stated'));
      else if (bytes < slowMs * bytesPerMsMin) done(new SourceUnfit('the snapshot arrives too slowly'));
      else done(null, chunk);
    },
  });
}

async function download(base: string, token: string, part: Part, options: FetchOptions): Promise<void> {
  const { tag } = part;
  const has = tag === undefined ? 0 : (await stat(part.path)).size;
  const rest = tag !== undefined && has > 0 && { range: `bytes=${has}-`, 'if-range': tag };
  const answer = await askUntilFree(base, { authorization: `Bearer ${token}`, ...rest }, options);
  const isRest = answer.statusCode === 206 && rest !== false;
  if (answer.statusCode !== 200 && !isRest) {
    await readRefusal(answer);
    throw new Error(`the control plane answered ${answer.statusCode}`);
  }
  const { paceFromMs = paceFromMsDefault } = options;
  const stated = await statedBytes(answer, dirname(part.path)).catch((error: unknown) => {
    answer.destroy();
    throw error;
  });
  const hash = createHash('sha256');
  if (isRest) for await (const chunk of createReadStream(part.path)) hash.update(chunk as Buffer);
  part.tag = String(answer.headers['etag'] ?? '') || undefined;
  const measure = measureDownload(hash, stated, paceFromMs);
  const file = createWriteStream(part.path, { mode: 0o600, flags: isRest ? 'a' : 'w' });
  try {
    await pipeline(answer, measure, file);
  } finally {
    // Wait until the file is closed. If the caller removed it while it is still being opened, it would appear again.
    if (!file.closed) await new Promise<void>((resolve) => file.once('close', () => resolve()));
  }
  if (hash.digest('hex') === answer.headers['x-headgate-sha256']) return;
  part.tag = undefined;
  throw new Error('the snapshot was damaged in transit');
}

/** Checks a downloaded file. Rejects unless it is a complete snapshot of this log and this fold version. */
async function check(part: string, { log, logId }: FetchOptions): Promise<void> {
  const snapshot = openExisting(part, { readOnly: false });
  try {
    if (snapshot.seq === 0) throw new Error('the snapshot is empty');
    if (logId !== undefined && snapshot.log !== logId)
      throw new Error(`the snapshot is of log ${snapshot.log}, not ${logId}`);
    const differing = await verifyInTurns(snapshot.db);
    if (differing.length > 0) throw new Error(`rows of ${differing.join(', ')} do not match their digest`);
    await checkIdentity(log, snapshot).catch((error: unknown) => {
      // Use the snapshot although the log is unreachable. It is compared with the log before the first record is folded.
      if (!(error instanceof LogUnavailable)) throw error;
    });
  } finally {
    snapshot.close();
  }
}
