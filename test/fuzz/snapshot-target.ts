/**
 * Offers hostile snapshot files. A download may be accepted only if its rows add up to their digests. A local `state.db` must
 * be opened or quarantined. In both cases a changed position must be rejected, unless its checksum was forged too.
 *
 * Some cases start a real gateway on the file. It must reach the state of its control plane and keep following it. If a
 * forged position makes folded records seem missing from the log, the gateway may refuse the log instead, but must say so.
 */
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { pino } from 'pino';
import { fetchSnapshot } from '../../data-plane/snapshot/fetch-snapshot.ts';
import type { ControlLog } from '../../shared/log/core/control-log.ts';
import { openLog } from '../../shared/log/open-log.ts';
import { DatabaseCorrupt } from '../../shared/runtime/sqlite.ts';
import { OtherFoldVersion, openExisting, openOrRebuild } from '../../shared/snapshot/open-snapshot.ts';
import type { Snapshot } from '../../shared/snapshot/snapshot.ts';
import { verify } from '../../shared/snapshot/verify.ts';
import { gatewayToken, operatorToken } from '../support/process-fleet.ts';
import type { Note, Target } from './campaign.ts';
import type { Draw } from './draw.ts';
import { FuzzFleet } from './fleet.ts';
import { FleetTarget } from './fleet-target.ts';
import { type SpoiltState, spoiltState } from './spoilt-state.ts';

const realOdds = 1 / 30;
/**
 * Probability that a case with a forged position starts a real gateway. It is higher than otherwise, because only a real
 * gateway shows the effect.
 */
const forgedRealOdds = 1 / 6;
/**
 * Time within which the gateway must recover, in ms from the start of the case. Short enough to be reported before the case
 * is stopped as too long.
 */
const healMs = 50_000;
const askMs = 5000;
/** Pattern of the health text of a gateway whose log does not contain the record at its position. */
const refusal = /\[\+\]log [^[]*\bfolded\b/;
const quiet = pino({ level: 'silent' });

export const snapshotTarget: Target = {
  name: 'snapshot',
  start: async () => {
    const fleet = await FuzzFleet.start();
    const headers = { authorization: `Bearer ${operatorToken}` };
    const answer = await fetch(`${fleet.plane.started.ready.admin}/admin/v1/snapshot`, { headers });
    const log = await openLog(fleet.logUrl, { topic: 'headgate.control' });
    const target = new SnapshotTarget(fleet, log, Buffer.from(await answer.arrayBuffer()));
    await target.listen();
    return target;
  },
};

function positionOf({ db }: Snapshot): string {
  const columns = 'log, seq, hash, head_offset, next_offset, signers, skipped, diverged_at';
  return JSON.stringify(db.prepare(`SELECT ${columns} FROM position`).get());
}

class SnapshotTarget extends FleetTarget {
  readonly workers = 6;
  readonly #log: ControlLog;
  readonly #good: Buffer;
  readonly #dir = mkdtempSync(join(tmpdir(), 'headgate-fuzz-state-'));
  readonly #server: Server;
  readonly #goodPosition: string;
  /** Files that the server offers, by the first segment of the URL path. */
  readonly #offers = new Map<string, Buffer>();
  #serial = 0;
  #taken = 0;
  #rebuilt = 0;
  #healed = 0;
  #refused = 0;

  constructor(fleet: FuzzFleet, log: ControlLog, good: Buffer) {
    super(fleet);
    this.#log = log;
    this.#good = good;
    this.#goodPosition = this.#positionOfGood();
    this.#server = createServer((request, response) => {
      const offered = this.#offers.get(request.url?.split('/')[1] ?? '') ?? Buffer.alloc(0);
      const digest = createHash('sha256').update(offered).digest('hex');
      response.writeHead(200, { 'x-headgate-sha256': digest }).end(offered);
    });
  }

  async listen(): Promise<void> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve));
  }

  async tryCase(draw: Draw, note: Note): Promise<string[]> {
    const spoilt = spoiltState(draw, this.#good, this.#dir);
    note(spoilt.bytes);
    const number = this.#serial++;
    if (draw.chance(spoilt.isForged ? forgedRealOdds : realOdds))
      return this.#startOn(spoilt, `spoilt-${number}`);
    const path = join(this.#dir, `${number}.db`);
    try {
      return draw.chance(0.5) ? await this.#offer(spoilt, path, `${number}`) : this.#open(spoilt, path);
    } finally {
      this.#offers.delete(`${number}`);
      for (const aside of ['', '.aside', '.part'])
        for (const suffix of ['', '-wal', '-shm']) rmSync(path + aside + suffix, { force: true });
    }
  }

  async #offer({ bytes, isForged }: SpoiltState, path: string, name: string): Promise<string[]> {
    this.#offers.set(name, bytes);
    const { port } = this.#server.address() as AddressInfo;
    const controlPlanes = [`http://127.0.0.1:${port}/${name}`];
    // Makes only one attempt, because a second one would get the same bytes after a pause.
    const attempt = fetchSnapshot({
      path,
      controlPlanes,
      token: gatewayToken,
      log: this.#log,
      logId: undefined,
      logger: quiet,
    });
    if (!(await attempt)) return existsSync(path) ? ['a download that was refused stands in place'] : [];
    this.#taken++;
    const snapshot = openExisting(path, { readOnly: true });
    try {
      const { differing } = verify(snapshot.db);
      const faults = isForged ? [] : this.#positionFaults(snapshot);
      if (differing.length > 0) faults.push(`a download was taken whose ${differing.join()} do not add up`);
      return faults;
    } finally {
      snapshot.close();
    }
  }

  #positionOfGood(): string {
    const path = join(this.#dir, 'good.db');
    writeFileSync(path, this.#good);
    const snapshot = openExisting(path, { readOnly: true });
    try {
      return positionOf(snapshot);
    } finally {
      snapshot.close();
    }
  }

  #positionFaults(snapshot: Snapshot): string[] {
    const position = positionOf(snapshot);
    return position === this.#goodPosition ? [] : [`a changed position was taken over: ${position}`];
  }

  #open({ bytes, isForged }: SpoiltState, path: string): string[] {
    writeFileSync(path, bytes);
    try {
      const { snapshot, rebuiltBecause } = openOrRebuild(path);
      const faults: string[] = [];
      if (rebuiltBecause !== undefined) {
        this.#rebuilt++;
        if (snapshot.seq !== 0) faults.push('a rebuilt snapshot is not empty');
      } else if (!isForged) faults.push(...this.#positionFaults(snapshot));
      snapshot.apply([{ offset: snapshot.nextOffset, value: Buffer.from('junk'), signature: null }]);
      snapshot.close();
      return faults;
    } catch (error) {
      if (error instanceof DatabaseCorrupt || error instanceof OtherFoldVersion) return [];
      throw error;
    }
  }

  async #startOn({ bytes, isForged }: SpoiltState, name: string): Promise<string[]> {
    const untilMs = performance.now() + healMs;
    const folder = join(this.fleet.dir, name);
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    writeFileSync(join(folder, 'state.db'), bytes);
    const gateway = await this.fleet.watchGateway(name);
    try {
      // A gateway that reads from a wrong position looks healthy until the next commit, so make one.
      const { value } = await this.fleet.operator.createKey('acme', name);
      this.fleet.secrets.add(value);
      let standing = '';
      while (gateway.alive && performance.now() < untilMs) {
        const { position, digest } = await this.fleet.operator.call('GET', '/status');
        const health = await fetch(`${gateway.started.ready.metrics}/readyz?verbose`, {
          signal: AbortSignal.timeout(askMs),
        });
        standing = (await health.text()).replaceAll('\n', ' ');
        if (health.ok && standing.includes(`fold at ${position}, digest ${digest}`)) {
          this.#healed++;
          return [];
        }
        if (isForged && refusal.test(standing)) {
          this.#refused++;
          return [];
        }
        await pause(200);
      }
      return gateway.alive ? [`a gateway did not heal from its state: ${standing}`] : [];
    } finally {
      await gateway.end();
    }
  }

  override warmedUp(): Promise<void> {
    return Promise.resolve();
  }
  override settle(): Promise<void> {
    return Promise.resolve();
  }
  figures(): Record<string, number> {
    return {
      'downloads taken': this.#taken,
      'files quarantined': this.#rebuilt,
      'gateways healed': this.#healed,
      'logs refused for a forged position': this.#refused,
    };
  }
  override async close(): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await this.#log.close();
    await super.close();
    rmSync(this.#dir, { recursive: true, force: true });
  }
}
