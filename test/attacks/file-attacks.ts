/** Attacks through what a starting process or a command reads: an endless snapshot, or a backup that is not plain data. */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { cpSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { scaledMs } from '../support/budget.ts';
import type { Attack, Stage } from './attack.ts';

/** Longest time that a gateway may wait for its first snapshot before it reads the log instead, in ms. */
const firstSnapshotMsMax = 75_000;

const drippedSnapshot: Attack = {
  name: 'a control plane that sends a snapshot byte by byte',
  at: 'first snapshot',
  isLong: true,
  run: async ({ fleet, hostile }) => {
    const name = `gateway-dripped-${Date.now()}`;
    const args = ['gateway', '--data', join(fleet.dir, name), '--name', name, '--control-plane', hostile.url];
    const ports = ['--port', '0', '--metrics-port', '0', '--drain-timeout', '1'];
    const late = new Promise<string>((resolve) => {
      setTimeout(resolve, scaledMs(firstSnapshotMsMax), 'the gateway did not serve').unref();
    });
    const started = fleet.start(name, [...args, ...ports]);
    const fault = await Promise.race([started.then(() => undefined), late]);
    void started.then((one) => one.end('SIGTERM')).catch(() => undefined);
    return fault === undefined ? [] : [fault];
  },
};

/** Time-out of a restore, in ms, because a command that reads something other than a file could wait forever. */
const restoreMsMax = 30_000;

const makeHostile: Readonly<Record<string, (folder: string, file: string) => void>> = {
  'a FIFO': (_folder, file) => {
    rmSync(file);
    execFileSync('mkfifo', [file]);
  },
  'a trigger': (folder, file) => {
    const db = new Database(file);
    const tables = db.prepare("SELECT name FROM sqlite_master WHERE type = 'table'").all() as {
      name: string;
    }[];
    for (const { name } of tables.filter((table) => !table.name.startsWith('sqlite')))
      db.exec(`CREATE TRIGGER "hostile_${name}" AFTER INSERT ON "${name}" BEGIN DELETE FROM "${name}"; END`);
    db.close();
    describeAgain(folder, file);
  },
};

interface BackupManifest {
  readonly data: { file: string; bytes: number; sha256: string }[];
}

const sha256 = (bytes: string | Buffer): string => createHash('sha256').update(bytes).digest('hex');

function readBackup(folder: string): BackupManifest {
  return (JSON.parse(readFileSync(join(folder, 'manifest.json'), 'utf8')) as { manifest: BackupManifest })
    .manifest;
}

/** Updates the sizes and checksums in the backup's description, as an attacker who can write to the backup would. */
function describeAgain(folder: string, file: string): void {
  const manifest = readBackup(folder);
  const bytes = readFileSync(file);
  for (const one of manifest.data)
    if (file.endsWith(one.file)) Object.assign(one, { bytes: bytes.length, sha256: sha256(bytes) });
  const text = JSON.stringify({ manifest, sha256: sha256(JSON.stringify(manifest)) }, null, 2);
  writeFileSync(join(folder, 'manifest.json'), `${text}\n`);
}

const backups = Object.entries(makeHostile).map(
  ([what, spoil]): Attack => ({
    name: `a backup with ${what}`,
    at: 'backup',
    run: async (stage) => restored(stage, what, spoil),
  }),
);

async function restored(
  { fleet }: Stage,
  what: string,
  spoil: (folder: string, file: string) => void,
): Promise<readonly string[]> {
  const folder = join(fleet.dir, `backup-${Date.now()}`);
  const good = await fleet.cli(['backup', folder, '--data', fleet.folderOf('plane')]);
  if (good.code !== 0) return [`no backup was made: ${good.stderr}`];
  const hostile = `${folder}-hostile`;
  cpSync(folder, hostile, { recursive: true });
  const { data } = readBackup(hostile);
  const file = data.find((one) => one.file.includes('usage'))?.file ?? '';
  spoil(hostile, join(hostile, file));
  const to = ['--log', `sqlite:${folder}-log`, '--data', `${folder}-data`];
  const args = ['backup', 'restore', hostile, ...to, '--yes', '--allow-unsigned'];
  const { code, stderr } = await fleet.cli(args, {}, scaledMs(restoreMsMax));
  if (code === 0) return [`a backup with ${what} was restored`];
  return code < 0 ? [`the command did not end by itself: ${stderr}`] : [];
}

export const fileAttacks: readonly Attack[] = [drippedSnapshot, ...backups];
