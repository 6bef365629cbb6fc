/** Offers the present state as one SQLite file, for gateways that start and for backups. */
import { createHash, randomUUID } from 'node:crypto';
import { createReadStream, statSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import type { FastifyInstance } from 'fastify';
import { foldVersion } from '../../shared/snapshot/fold.ts';
import type { AdminContext } from './context.ts';

/** Copies under way at once; more wait, because each takes disk and time. */
let turn: Promise<unknown> = Promise.resolve();

export function registerSnapshotRoute(app: FastifyInstance, context: AdminContext): void {
  const { snapshot } = context;
  app.get(
    '/snapshot',
    {
      config: { access: 'gateway' },
      exposeHeadRoute: false,
      schema: { summary: 'Download the state as a SQLite file' },
    },
    async (_request, reply) => {
      const path = join(tmpdir(), `headgate-snapshot-${randomUUID()}.db`);
      const copied = turn.then(() => copy(path));
      turn = copied.catch(() => undefined);
      const headers = await copied;
      const stream = createReadStream(path);
      stream.on('close', () => void rm(path, { force: true }));
      return reply.headers(headers).type('application/vnd.sqlite3').send(stream);
    },
  );

  async function copy(path: string): Promise<Record<string, string>> {
    // Synchronous, so position and rows in the file are of one moment.
    snapshot.db.prepare('VACUUM INTO ?').run(path);
    const { log, seq, hash } = snapshot.head;
    const digest = snapshot.digest();
    const sha256 = createHash('sha256');
    await pipeline(createReadStream(path), sha256);
    return {
      'content-length': String(statSync(path).size),
      'x-headgate-log': log ?? '',
      'x-headgate-position': String(seq),
      'x-headgate-hash': hash,
      'x-headgate-fold-version': String(foldVersion),
      'x-headgate-digest': digest,
      'x-headgate-sha256': sha256.digest('hex'),
    };
  }
}
