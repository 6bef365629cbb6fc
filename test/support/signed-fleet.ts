/**
 * A fleet of processes on one signed log, with key files, the command line, and an outsider who may write to the log but
 * has no key that counts.
 */
import { execFile, execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DevAdmin } from '../../dev/dev-admin.ts';
import { type KnownEvent, toStored } from '../../schemas/events.ts';
import { hashKey, mintKey } from '../../shared/ids/api-key.ts';
import { composeCommit, emptyHead } from '../../shared/log/core/chain.ts';
import type { ControlLog } from '../../shared/log/core/control-log.ts';
import { fingerprintOf, loadSigner, type Signer } from '../../shared/log/core/signing.ts';
import { openLog } from '../../shared/log/open-log.ts';
import { memorySnapshot } from '../../shared/snapshot/open-snapshot.ts';
import type { Snapshot } from '../../shared/snapshot/snapshot.ts';
import { known } from './commits.ts';
import { type Started, startProcess } from './processes.ts';

const binary = new URL('../../dist/cli/headgate.js', import.meta.url).pathname;
const signedToken = 'signed-fleet-operator-token';

export interface KeyFile {
  readonly file: string;
  readonly publicFile: string;
  readonly signer: Signer;
  readonly fingerprint: string;
}

export interface CliEnd {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

export class SignedFleet {
  readonly dir = mkdtempSync(join(tmpdir(), 'headgate-signed-'));
  readonly logFolder = join(this.dir, 'log');
  readonly logUrl = `sqlite:${this.logFolder}`;
  readonly #started = new Set<Started<unknown>>();

  /** A key made as docs/operate.md makes one. */
  key(name: string): KeyFile {
    const file = join(this.dir, `${name}.pem`);
    const publicFile = join(this.dir, `${name}.pub`);
    execFileSync('openssl', ['genpkey', '-algorithm', 'ed25519', '-out', file]);
    execFileSync('openssl', ['pkey', '-in', file, '-pubout', '-out', publicFile]);
    const signer = loadSigner(file);
    return { file, publicFile, signer, fingerprint: fingerprintOf(signer.publicKey) };
  }

  async controlPlane(
    name: string,
    key: KeyFile | undefined,
    more: readonly string[] = [],
  ): Promise<Started<{ admin: string }> & { readonly client: DevAdmin }> {
    const started = await this.#start<{ admin: string }>(
      name,
      ['control-plane', ...more],
      key && { HEADGATE_SIGNING_KEY: key.file },
    );
    return { ...started, client: new DevAdmin(started.ready.admin, signedToken) };
  }

  gateway(
    name: string,
    more: readonly string[] = [],
  ): Promise<Started<{ readonly api: string; readonly metrics: string }>> {
    return this.#start(name, ['gateway', '--drain-delay', '0', ...more]);
  }

  async #start<Ready>(
    name: string,
    args: readonly string[],
    env: Record<string, string> = {},
  ): Promise<Started<Ready>> {
    const all = [
      ...args,
      '--data',
      join(this.dir, name),
      '--name',
      name,
      '--port',
      '0',
      '--metrics-port',
      '0',
    ];
    const started = await startProcess<Ready>({
      dir: this.dir,
      name,
      args: all,
      env: { ...this.#env(), ...env },
    });
    this.#started.add(started);
    return started;
  }

  #env(): Record<string, string> {
    return {
      HEADGATE_LOG: this.logUrl,
      HEADGATE_OPERATOR_TOKEN: signedToken,
      HEADGATE_GATEWAY_TOKEN: 'signed-fleet-gateway-token',
      HEADGATE_SIGNING_KEY: '',
    };
  }

  /** Runs `headgate …` to its end. */
  cli(args: readonly string[], env: Record<string, string> = {}): Promise<CliEnd> {
    const options = {
      cwd: this.dir,
      env: {
        ...process.env,
        ...this.#env(),
        HEADGATE_TOKEN: signedToken,
        HEADGATE_LOG_LEVEL: 'fatal',
        ...env,
      },
      timeout: 60_000,
    };
    return new Promise((resolve) => {
      execFile(process.execPath, [binary, ...args], options, (error, stdout, stderr) =>
        resolve({ code: error ? Number(error.code ?? -1) : 0, stdout, stderr }),
      );
    });
  }

  async withLog<Result>(work: (log: ControlLog, folded: Snapshot) => Promise<Result>): Promise<Result> {
    mkdirSync(this.logFolder, { recursive: true });
    const log = await openLog(this.logUrl, { topic: 'headgate.control' });
    const folded = memorySnapshot();
    try {
      const end = await log.end();
      if (end > 0)
        for await (const { records, nextOffset } of log.tail({ from: 0 })) {
          folded.apply(records);
          if (nextOffset >= end) break;
        }
      return await work(log, folded);
    } finally {
      folded.close();
      await log.close();
    }
  }

  /** Appends a record at the end of the chain as somebody who may write to the log can, and gives its offset. */
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

  /** Appends a hand-made `key.created` and gives the key's value. */
  async forgeKey(organisation: string, signer?: Signer): Promise<string> {
    const value = mintKey(randomBytes);
    const id = `key-forged-${randomBytes(4).toString('hex')}`;
    const hash = hashKey(value).toString('hex');
    const rest = { organisation, name: 'forged', hash, expires: 'never' as const, expiresAt: null };
    await this.append(known('key.created', { id, ...rest }), signer);
    return value;
  }

  async close(): Promise<void> {
    for (const started of [...this.#started].reverse()) await started.end();
    rmSync(this.dir, { recursive: true, force: true });
  }
}

/** The status of a request with this key. Without a node any other status than 401 means that the key was accepted. */
export async function ask(api: string, key: string): Promise<number> {
  const response = await fetch(`${api}/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'echo-small', messages: [{ role: 'user', content: 'hello' }] }),
  });
  await response.text();
  return response.status;
}
