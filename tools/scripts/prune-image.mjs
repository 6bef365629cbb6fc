// Removes files that nothing reads at run time. Only the image build may run it, in its own build folder.
import { mkdirSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';

if (Number(process.versions.node.split('.', 1)[0]) < 24)
  throw new Error(`The base of the image has Node ${process.versions.node}; it must have Node 24 or later.`);

/** Files that only compilers, debuggers and readers of sources use. */
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

// Node 24 uses the driver's newer build. It has a binary for each platform, but the image needs only one.
remove('node_modules/better-sqlite3');
const driver = 'node_modules/better-sqlite3-node-api';
for (const folder of ['deps', 'src']) remove(join(driver, folder));
prune(join(driver, 'prebuilds'), (name) => !name.startsWith('linux') || !name.includes(`-${process.arch}.`));
for (const folder of ['.cache', '.bin', '.package-lock.json']) remove(join('node_modules', folder));
prune('node_modules', (name) => unread.test(name));

// Copied together with its owner, so that the image's last stage does not run a command.
mkdirSync('/data', { recursive: true });
