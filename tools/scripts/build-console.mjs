// Builds the web pages into dist/console and dist/play. File names contain a hash, and each file is compressed here once.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';
import { build } from 'vite';

await buildPages('console', 'dist/console');
await buildPages('console/play', 'dist/play');

async function buildPages(root, outDir) {
  await build({
    root,
    configFile: false,
    logLevel: 'warn',
    publicDir: join(process.cwd(), 'console/public'),
    oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
    build: {
      outDir: join(process.cwd(), outDir),
      emptyOutDir: true,
      target: 'es2022',
      // Nothing may be inlined, because the pages' content policy allows only files of their own origin.
      assetsInlineLimit: 0,
      modulePreload: { polyfill: false },
    },
  });
  for (const entry of readdirSync(outDir, { recursive: true, withFileTypes: true }))
    if (entry.isFile()) compress(join(entry.parentPath, entry.name));
}

function compress(path) {
  const content = readFileSync(path);
  writeFileSync(`${path}.gz`, gzipSync(content, { level: 9 }));
  const params = { [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY };
  writeFileSync(`${path}.br`, brotliCompressSync(content, { params }));
}
