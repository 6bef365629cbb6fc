// Builds the console's pages into dist/console: hashed names, and each file compressed once, here, for the control plane to serve.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';
import { build } from 'vite';

const outDir = 'dist/console';

await build({
  root: 'console',
  configFile: false,
  logLevel: 'warn',
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  build: {
    outDir: `../${outDir}`,
    emptyOutDir: true,
    target: 'es2022',
    // Nothing inline: the pages' policy allows files of this origin alone.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
  },
});

for (const entry of readdirSync(outDir, { recursive: true, withFileTypes: true })) {
  if (!entry.isFile()) continue;
  const path = join(entry.parentPath, entry.name);
  const content = readFileSync(path);
  writeFileSync(`${path}.gz`, gzipSync(content, { level: 9 }));
  const params = { [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY };
  writeFileSync(`${path}.br`, brotliCompressSync(content, { params }));
}
