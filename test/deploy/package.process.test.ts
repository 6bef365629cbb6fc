/**
 * Checks the contents of the package that `npm pack` would make, and its bill of materials. test/release installs the
 * package.
 */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { expect, test } from 'vitest';

const root = resolve(import.meta.dirname, '../..');
const run = (command: string, ...args: readonly string[]): string =>
  execFileSync(command, args, {
    cwd: root,
    encoding: 'utf8',
    maxBuffer: 2 ** 26,
    stdio: ['ignore', 'pipe', 'ignore'],
  });

test('the package contains the program, its pages and documents, and no tests, sources or maps', () => {
  const [{ files }] = JSON.parse(run('npm', 'pack', '--dry-run', '--json', '--ignore-scripts'));
  const paths = (files as readonly { readonly path: string }[]).map(({ path }) => path);
  const wanted = [
    'dist/cli/headgate.js',
    'dist/console/index.html',
    'dist/play/index.html',
    'dist/play/index.html',
    'dist/data-plane/usage/worker-entry.js',
    'docs/operate.md',
    'schemas/json',
    'CHANGELOG.md',
    'LICENSE',
  ];
  for (const path of wanted)
    expect(
      paths.some((each) => each === path || each.startsWith(`${path}/`)),
      path,
    ).toBe(true);
  expect(paths.filter((path) => /\.(?:tsx?|map)$|\.test\.|^(?:dist\/)?(?:test|bench)\//.test(path))).toEqual(
    [],
  );
});

test('the bill of materials lists every installed run-time package with its version, and no other', () => {
  const { packages } = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')) as {
    readonly packages: Readonly<
      Record<string, { name?: string; version: string; dev?: boolean; devOptional?: boolean }>
    >;
  };
  const locked = Object.entries(packages).filter(([path, { dev }]) => path !== '' && dev !== true);
  const bill = JSON.parse(run('node', 'tools/scripts/sbom.mjs'));
  expect(bill).toMatchObject({ bomFormat: 'CycloneDX', metadata: { component: { name: 'headgate' } } });
  const named = (bill.components as readonly { purl: string }[]).map(({ purl }) => purl);
  const expected = locked.map(([path, { name, version }]) => {
    const own = name ?? path.split('node_modules/').pop() ?? '';
    return `pkg:npm/${own.replace('@', '%40')}@${version}`;
  });
  expect(named.sort()).toEqual([...new Set(expected)].sort());
  const { dependencies } = bill as { dependencies: readonly { ref: string; dependsOn: readonly string[] }[] };
  const project = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  const direct = Object.keys({ ...project.dependencies, ...project.optionalDependencies });
  const [own] = dependencies;
  expect(own?.dependsOn).toHaveLength(direct.length);
  const reached = new Set(own?.dependsOn);
  for (const purl of reached)
    for (const next of dependencies.find(({ ref }) => ref === purl)?.dependsOn ?? []) reached.add(next);
  expect([...reached].sort()).toEqual(named);
});
