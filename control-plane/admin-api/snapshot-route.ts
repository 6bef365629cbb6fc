/** Serves the state, or the rest of an interrupted download, as one SQLite file for backups and for gateways that start. */
import { createReadStream, type ReadStream } from 'node:fs';
import { join } from 'node:path';
import type { FastifyRequest } from 'fastify';
import { peerPrefix } from '../../shared/runtime/connections.ts';
import { foldVersion } from '../../shared/snapshot/fold.ts';
import { type SnapshotCaller, SnapshotCopies, type SnapshotCopy } from '../state/snapshot-copies.ts';
import { isOperator } from './access.ts';
import type { AdminContext } from './context.ts';
import type { OperationHandlers } from './operations.ts';

type Context = Pick<
  AdminContext,
  'snapshot' | 'attempts' | 'dataDir' | 'operatorToken' | 'gatewayToken' | 'previousGatewayToken'
>;

/** Longest time in ms that a download may make no progress. It is limited because other downloads wait for it. */
const idleMsMax = 30_000;
const progressEveryMs = 5000;
/** Base time limit in ms for a download. Each byte of the file adds time, at the rate `sendBytesPerMsMin`. */
const sendMsMin = 60_000;
const sendBytesPerMsMin = 256;

export function snapshotHandlers(context: Context): OperationHandlers<'snapshot.get'> {
  const copies = new SnapshotCopies({
    state: context.snapshot.path,
    position: () => context.snapshot.seq,
    folder: join(context.dataDir, 'snapshot-copies'),
  });
  return {
    'snapshot.get': async ({ request, reply }) => {
      const client = new AbortController();
      reply.raw.once('close', () => client.abort());
      const copy = await copies
        .acquire(snapshotCaller(request, context), client.signal)
        .catch((error: unknown) => {
          if (!client.signal.aborted) throw error;
        });
      // There is no copy if the client has closed its connection.
      if (!copy) return reply.hijack();
      const tag = `"${copy.sha256}"`;
      if (request.headers['if-none-match'] === tag) {
        copy.release();
        return reply.code(304).header('etag', tag).send();
      }
      const part = selectPart(request, tag, copy.bytes);
      const stream = createReadStream(copy.path, part);
      stream.once('close', () => copy.release());
      const bytes = part === undefined ? copy.bytes : part.end + 1 - part.start;
      boundSending(stream, bytes);
      if (part !== undefined)
        reply.code(206).header('content-range', `bytes ${part.start}-${part.end}/${copy.bytes}`);
      return reply
        .headers({
          ...snapshotHeaders(copy),
          etag: tag,
          'accept-ranges': 'bytes',
          'content-length': String(bytes),
        })
        .type('application/vnd.sqlite3')
        .send(stream);
    },
  };
}

/** Returns the requested range of bytes if the request names exactly this copy. Otherwise the whole file is sent. */
function selectPart(
  { headers }: FastifyRequest,
  tag: string,
  bytes: number,
): { readonly start: number; readonly end: number } | undefined {
  const [, first, last] = /^bytes=(\d{1,15})-(\d{0,15})$/.exec(headers.range ?? '') ?? [];
  if (first === undefined || headers['if-range'] !== tag) return undefined;
  const start = Number(first);
  const end = Math.min(bytes - 1, last === '' || last === undefined ? bytes : Number(last));
  return start <= end ? { start, end } : undefined;
}

function snapshotCaller(request: FastifyRequest, context: Context): SnapshotCaller {
  if (isOperator(request, context)) return { kind: 'operator' };
  return { kind: 'gateway', address: peerPrefix(request.raw.socket.remoteAddress) };
}

function snapshotHeaders({ log, seq, hash, digest, sha256 }: SnapshotCopy): Record<string, string> {
  return {
    'x-headgate-log': log ?? '',
    'x-headgate-position': String(seq),
    'x-headgate-hash': hash,
    'x-headgate-fold-version': String(foldVersion),
    'x-headgate-digest': digest,
    'x-headgate-sha256': sha256,
  };
}

/** Ends a download whose reader has stopped or is too slow. */
function boundSending(stream: ReadStream, bytes: number): void {
  const startMs = performance.now();
  let sent = 0;
  let movedMs = startMs;
  const timer = setInterval(() => {
    const nowMs = performance.now();
    if (stream.bytesRead > sent) movedMs = nowMs;
    sent = stream.bytesRead;
    if (nowMs - movedMs > idleMsMax || nowMs - startMs > sendMsMin + bytes / sendBytesPerMsMin)
      stream.destroy(new Error('the download is too slow'));
  }, progressEveryMs);
  stream.once('close', () => clearInterval(timer));
}
