/** A log that is cut at a checkpoint: what is kept, and what those have who read it later; for both logs. */
import { generateKeyPairSync } from 'node:crypto';
import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeEach, expect, test } from 'vitest';
import { type ControlPlane, type ControlPlaneSettings, startControlPlane } from '../../control-plane/main.ts';
import { startGateway } from '../../data-plane/main.ts';
import { DevAdmin } from '../../dev/dev-admin.ts';
import { toStored } from '../../schemas/events.ts';
import { batchesToEnd } from '../../shared/log/core/batches-to-end.ts';
import type { LogBeginning, LogRecord } from '../../shared/log/core/control-log.ts';
import { fingerprintOf, loadSigner } from '../../shared/log/core/signing.ts';
import { openLog } from '../../shared/log/open-log.ts';
import { foldVersion } from '../../shared/snapshot/fold.ts';
import { copyBeginning } from '../../shared/snapshot/log-beginning.ts';
import { memorySnapshot } from '../../shared/snapshot/open-snapshot.ts';
import { faultsIn } from '../support/checks.ts';
import { type ChainOptions, ChainWriter, fleetHistory, known } from '../support/commits.ts';
import { gatewayAlone, operatorToken, planeSettings } from '../support/fleet.ts';
import { type CliRun, runCli } from '../support/run-cli.ts';

export const topic = { topic: 'headgate.control' };
/** The position of the checkpoint. */
export const cut = 62;
export const archiveLine = `log archive --before ${cut + 20} --to archive --yes`;

/** A log with a checkpoint, and the processes that read it. */
class ArchivedFleet {
  readonly url: string;
  readonly dir: string;
  readonly records: LogRecord[] = [];
  admin: DevAdmin | undefined;
  readonly #writer: ChainWriter;
  readonly #running: (() => Promise<void>)[] = [];

  constructor(dir: string, url: string, options: ChainOptions = {}) {
    this.dir = dir;
    this.url = url;
    this.#writer = new ChainWriter({ log: 'log-of-the-test', ...options });
  }

  async fill(): Promise<void> {
    const add = (seed: number, commits: number): void => {
      this.records.push(...fleetHistory(seed, commits).map((events) => this.#writer.add(events)));
    };
    this.records.push(this.#writer.open());
    add(7, 60);
    this.checkpoint();
    add(8, 30);
    await this.append(this.records);
  }

  /** With the digests of what is before it. */
  checkpoint(at?: string): void {
    const { digests } = this.folded();
    const event = known('checkpoint', { foldVersion, digests });
    this.records.push(this.#writer.addStored([toStored(event)], 'control-plane', at));
  }

  folded() {
    const snapshot = memorySnapshot();
    snapshot.apply(this.records);
    const { seq } = snapshot;
    const digests = snapshot.digests();
    snapshot.close();
    return { seq, digests };
  }

  async append(added: readonly LogRecord[]): Promise<void> {
    const log = await openLog(this.url, topic);
    await Promise.all(added.map(({ value, signature }) => log.append(value, signature)));
    await log.close();
  }

  async inLog(): Promise<LogRecord[]> {
    const log = await openLog(this.url, topic);
    const found: LogRecord[] = [];
    for await (const batch of batchesToEnd(log)) found.push(...batch);
    await log.close();
    return found;
  }

  async startPlane(
    name = 'control-plane-1',
    more: Partial<ControlPlaneSettings> = {},
  ): Promise<ControlPlane> {
    const settings = { ...planeSettings(this.dir, this.url), name, dataDir: join(this.dir, name), ...more };
    const plane = await startControlPlane(settings);
    this.#running.push(() => plane.close());
    return plane;
  }

  async startGateway(name: string): Promise<void> {
    const gateway = await startGateway(gatewayAlone(this.dir, this.url, name));
    this.#running.push(() => gateway.close());
  }

  async startBoth(): Promise<ControlPlane> {
    const plane = await this.startPlane();
    await this.startGateway('gateway-1');
    this.admin = new DevAdmin(plane.admin, operatorToken);
    await this.settle();
    return plane;
  }

  async settle(): Promise<void> {
    const { complete } = (await this.admin?.confirmed(await this.admin.position(), 10)) ?? {};
    expect(complete).toBe(true);
  }

  cli(line: string, plane?: ControlPlane): Promise<CliRun> {
    const env = { HEADGATE_LOG: this.url, HEADGATE_TOKEN: operatorToken, HEADGATE_ADMIN: plane?.admin };
    return runCli(line.split(' '), { cwd: this.dir, env });
  }

  async archive(plane?: ControlPlane): Promise<void> {
    const run = await this.cli(archiveLine, plane);
    expect([run.code, run.err.includes('error')], run.err).toEqual([0, false]);
  }

  /** With processes that are stopped again. */
  async archiveAlone(): Promise<void> {
    await this.archive(await this.startBoth());
    await this.close();
  }

  async close(): Promise<void> {
    for (const close of this.#running.splice(0).reverse()) await close();
  }
}

interface ArchivedLog {
  /** Of a log that has nothing, for a test whose folder this is. */
  readonly newUrl: (dir: string) => string | Promise<string>;
  /** What makes the beginning unusable. */
  readonly damages: readonly (readonly [what: string, damage: (dir: string) => void | Promise<void>])[];
}

/** The fleet of the test that runs. */
export function archiveCases({ newUrl, damages }: ArchivedLog): () => ArchivedFleet {
  const root = mkdtempSync(join(tmpdir(), 'headgate-archive-'));
  let fleet: ArchivedFleet;
  const newFleet = async (options?: ChainOptions): Promise<ArchivedFleet> => {
    const dir = mkdtempSync(join(root, 'case-'));
    fleet = new ArchivedFleet(dir, await newUrl(dir), options);
    await fleet.fill();
    return fleet;
  };
  afterAll(() => rmSync(root, { recursive: true, force: true }));
  beforeEach(async () => {
    await newFleet();
  });
  afterEach(() => fleet.close());

  test('a log is cut at a checkpoint, and later readers have the same state', async () => {
    const { records } = fleet;
    const plane = await fleet.startBoth();
    const before = await fleet.cli('status -o json', plane);
    await fleet.archive(plane);
    const [first] = await fleet.inLog();
    expect(first?.value.equals(records[cut - 1]?.value as Buffer)).toBe(true);
    // Commands continue, and a second replica and a second gateway begin behind the cut.
    await fleet.admin?.call('POST', '/organisations', { id: 'late', name: 'Late' });
    const second = await fleet.startPlane('control-plane-2');
    await fleet.startGateway('gateway-2');
    await fleet.settle();
    const [one, other] = await Promise.all([
      fleet.cli('status -o json', plane),
      fleet.cli('status -o json', second),
    ]);
    expect(JSON.parse(other.out).digests).toEqual(JSON.parse(one.out).digests);
    expect(JSON.parse(other.out).position).toBeGreaterThan(JSON.parse(before.out).position);
    // A replica that has just started knows a gateway from before by what is remembered, until its next report.
    const states = async (): Promise<string[]> => {
      const { items } = JSON.parse((await fleet.cli('gateway list -o json', second)).out);
      return items.map(({ state }: { state: string }) => state);
    };
    await expect.poll(states, { timeout: 20_000, interval: 500 }).toEqual(['SYNCED', 'SYNCED']);
    const doctor = await fleet.cli('doctor --only log -o json', second);
    expect(faultsIn(doctor.out)).not.toContain('HG2009 fail headgate.control');
  });

  test('the past before the cut is answered as archived, not as an internal error', async () => {
    await fleet.archive(await fleet.startBoth());
    const second = await fleet.startPlane('control-plane-2');
    for (const line of [
      `events list --to ${cut - 10} -o json`,
      `status --at ${cut - 10}`,
      `events show ${cut - 10}`,
    ]) {
      const run = await fleet.cli(line, second);
      expect([run.code, run.err], line).toEqual([
        3,
        expect.stringContaining(`archived: positions before ${cut} are in the archive`),
      ]);
    }
    const listed = await fleet.cli('events list -o json', second);
    expect(JSON.parse(listed.out)).toMatchObject({ archivedBefore: cut });
    expect(JSON.parse(listed.out).items[0]).toMatchObject({ position: cut });
    expect(listed.err).toContain(`archived: positions before ${cut}`);
    // The state at the cut itself is known.
    expect(await fleet.cli(`status --at ${cut} -o json`, second)).toMatchObject({ code: 0 });
    expect(await fleet.cli(`events show ${cut} -o json`, second)).toMatchObject({ code: 0 });
  });

  test('proofs from the cut, and with the archive from the first commit', async () => {
    await fleet.archiveAlone();
    const { seq, digests } = fleet.folded();
    const from = await fleet.cli(`replay --from-log --to ${seq} --verify -o json`);
    expect(JSON.parse(from.out)).toMatchObject({ position: seq, digests, provenFrom: cut, verified: true });
    expect(from.err).toContain(`proven from position ${cut} on`);
    const whole = await fleet.cli(`replay --from-log --archive archive --to ${seq} --verify -o json`);
    expect(JSON.parse(whole.out)).toMatchObject({ position: seq, digests, skipped: 0, verified: true });
    expect(JSON.parse(whole.out)).not.toHaveProperty('provenFrom');
    const past = await fleet.cli(`replay --archive archive --to ${cut - 5} -o json`);
    expect(JSON.parse(past.out)).toMatchObject({ position: cut - 5 });
    expect(await fleet.cli(`replay --from-log --to ${cut - 5}`)).toMatchObject({ code: 3 });
    expect(await fleet.cli('backup verify archive')).toMatchObject({ code: 0 });
    // Backups continue in a copy of the archive, and a new folder is refused.
    const fresh = await fleet.cli('backup fresh --no-usage');
    expect([fresh.code, fresh.err]).toEqual([
      6,
      expect.stringContaining(`the log begins at position ${cut}`),
    ]);
    cpSync(join(fleet.dir, 'archive'), join(fleet.dir, 'copy'), { recursive: true });
    expect(await fleet.cli('backup copy --no-usage')).toMatchObject({ code: 0 });
    const verified = await fleet.cli('backup verify copy -o json');
    expect(JSON.parse(verified.out).position).toBeGreaterThanOrEqual(seq);
  });

  test('on a signed log a late reader trusts who began it, and nobody else', async () => {
    const { privateKey } = generateKeyPairSync('ed25519');
    const keyFile = join(fleet.dir, 'signing.pem');
    writeFileSync(keyFile, privateKey.export({ type: 'pkcs8', format: 'pem' }), { mode: 0o600 });
    const signer = loadSigner(keyFile);
    await newFleet({ signer });
    const signed = { signingKeyFile: keyFile };
    await fleet.archive(await fleet.startPlane('control-plane-1', signed));
    const trusting = { ...signed, trustedSigners: [fingerprintOf(signer.publicKey)] };
    await expect(fleet.startPlane('control-plane-2', trusting)).resolves.toBeDefined();
    const other = { ...signed, trustedSigners: ['0'.repeat(64)] };
    await expect(fleet.startPlane('control-plane-3', other)).rejects.toThrow('no signer of --trust-signer');
    // Who may sign is what the records of the beginning say.
    const log = await openLog(fleet.url, topic);
    const beginning = (await log.beginning?.()) as LogBeginning;
    const forged = { ...beginning, signers: [] };
    const path = join(fleet.dir, 'forged.db');
    await expect(copyBeginning(path, log, forged)).rejects.toThrow('its signers do not follow');
    const [genesis] = beginning.trust;
    const unsigned = { ...beginning, trust: [{ ...(genesis as LogRecord), signature: null }] };
    await expect(copyBeginning(path, log, unsigned)).rejects.toThrow('its signers do not follow');
    await expect(copyBeginning(path, log, beginning)).resolves.toBeUndefined();
    await log.close();
  });

  test('an unusable beginning is refused by a new reader, and the same command makes it again', async () => {
    await fleet.archiveAlone();
    for (const [what, damage] of damages) {
      await damage(fleet.dir);
      const refusal = await fleet.startPlane('control-plane-2').then(
        () => 'started',
        (error: unknown) => (error instanceof Error ? error.message : String(error)),
      );
      expect(refusal, what).toMatch(/the log begins behind commits that were archived|begins at offset/);
      expect(refusal, what).toMatch(/headgate log archive .*again with the archive/);
      await fleet.archive();
    }
    const plane = await fleet.startPlane('control-plane-2');
    const { seq, digests } = fleet.folded();
    const now = JSON.parse((await fleet.cli(`status --at ${seq} -o json`, plane)).out);
    expect(now.digests).toEqual(digests);
  });
  return () => fleet;
}
