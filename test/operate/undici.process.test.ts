/** Tests that a gateway uses its own HTTP client and does not load an HTTP library. */
import { execFileSync } from 'node:child_process';
import { resolve } from 'node:path';
import { expect, test } from 'vitest';

test('a gateway does not load undici', () => {
  const main = resolve(import.meta.dirname, '../../dist/data-plane/main.js');
  const script = `
    import { createRequire } from 'node:module';
    await import(${JSON.stringify(main)});
    const { cache } = createRequire(${JSON.stringify(main)});
    console.log(Object.keys(cache).filter((path) => path.includes('/undici/')).length);`;
  const printed = execFileSync(process.execPath, ['--input-type=module', '-e', script], { encoding: 'utf8' });
  expect(Number(printed)).toBe(0);
});
