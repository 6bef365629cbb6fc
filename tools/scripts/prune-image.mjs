// Removes files that nothing reads at run time. Only the build of the image may run this, and only in its own folder.
import { mkdirSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';

if (Number(process.versions.node.split('.', 1)[0]) < 24)
  throw new Error(`The base of the image has Node ${process.versions.node}; it must have Node 24 or later.`);

/** Files that only compilers, debuggers and people who read the sources need. */
const unread = /\.(?:[cm]?ts|map|gyp|gypi|mk|[ch]|cpp|hpp|o|a|d|tsbuildinfo)$/;
const tests = /\.test\.js$/;

function prune(folder, removes) {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) prune(path, removes);
    else if (removes(entry.name)) rmSync(path);
  }
}

const remove = (path) => rmSync(path, { recursive: true, force: true });

for (const folder of ['dist/test', 'dist/tools/bench']) remove(folder);
prune('dist', (name) => unread.test(name) || tests.test(name));

// Node 24 uses the newer build of the driver, which contains a binary for each platform. The image needs only one of them.
remove('node_modules/better-sqlite3');
const driver = 'node_modules/better-sqlite3-node-api';
for (const folder of ['deps', 'src']) remove(join(driver, folder));
prune(join(driver, 'prebuilds'), (name) => !name.startsWith('linux') || !name.includes(`-${process.arch}.`));
for (const folder of ['.cache', '.bin', '.package-lock.json']) remove(join('node_modules', folder));
prune('node_modules', (name) => unread.test(name));

// The folder is copied with its owner, so that the last stage of the image does not have to run a command.
mkdirSync('/data', { recursive: true });
