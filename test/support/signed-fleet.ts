/**
 * A fleet of processes on one signed log, with key files and the command line. Tests can also act as an outsider who can
 * write to the log but has no accepted key.
 */
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { type KnownEvent, toStored } from '../../schemas/events/events.ts';
import { hashKey, mintKey } from '../../shared/ids/api-key.ts';
import { batchesToEnd } from '../../shared/log/core/batches-to-end.ts';
import { composeCommit, emptyHead } from '../../shared/log/core/chain.ts';
import type { ControlLog } from '../../shared/log/core/control-log.ts';
import { computeFingerprint, loadSigner, type Signer } from '../../shared/log/core/signing.ts';
import { openLog } from '../../shared/log/open-log.ts';
import { memorySnapshot } from '../../shared/snapshot/open-snapshot.ts';
import type { Snapshot } from '../../shared/snapshot/snapshot.ts';
import { known } from './commits.ts';
import { type Plane, ProcessFleet } from './process-fleet.ts';

export interface KeyFile {
  readonly file: string;
  readonly publicFile: string;
  readonly signer: Signer;
  readonly fingerprint: string;
}

export class SignedFleet extends ProcessFleet {
  constructor() {
    super({ env: { HEADGATE_SIGNING_KEY: undefined } });
  }

  /** Creates a signing key as docs/security.md describes. */
  key(name: string): KeyFile {
    const file = join(this.dir, `${name}.pem`);
    const publicFile = join(this.dir, `${name}.pub`);
    execFileSync('openssl', ['genpkey', '-algorithm', 'ed25519', '-out', file]);
    execFileSync('openssl', ['pkey', '-in', file, '-pubout', '-out', publicFile]);
    const signer = loadSigner(file);
    return { file, publicFile, signer, fingerprint: computeFingerprint(signer.publicKey) };
  }

  controlPlane(name: string, key: KeyFile | undefined, flags: readonly string[] = []): Promise<Plane> {
    return this.startPlane(name, { flags, ...(key && { env: { HEADGATE_SIGNING_KEY: key.file } }) });
  }

  async withLog<Result>(work: (log: ControlLog, folded: Snapshot) => Promise<Result>): Promise<Result> {
    mkdirSync(this.logFolder, { recursive: true });
    const log = await openLog(this.logUrl, { topic: 'headgate.control' });
    const folded = memorySnapshot();
    try {
      for await (const records of batchesToEnd(log)) folded.apply(records);
      return await work(log, folded);
    } finally {
      folded.close();
      await log.close();
    }
  }

  /** Appends a record at the end of the chain, as anyone who can write to the log may do. Returns its offset. */
  append(event: KnownEvent, signer?: Signer): Promise<number> {
    return this.withLog((log, folded) => {
      const value = composeCommit({
        head: folded.seq > 0 ? folded.head : emptyHead('log-of-an-outsider'),
        ...{ id: `hand-made-${randomBytes(8).toString('hex')}`, at: new Date().toISOString(), by: 'mallory' },
        events: [toStored(event)],
      });
      return log.append(value, signer?.sign(value) ?? null);
    });
  }

  /** Appends a hand-made `key.created` and returns the key's value. */
  async forgeKey(organisation: string, signer?: Signer): Promise<string> {
    const value = mintKey(randomBytes);
    const id = `key-forged-${randomBytes(4).toString('hex')}`;
    const hash = hashKey(value).toString('hex');
    const rest = { organisation, name: 'forged', hash, expires: 'never' as const, expiresAt: null };
    await this.append(known('key.created', { id, ...rest }), signer);
    return value;
  }
}
