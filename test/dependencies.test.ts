/** Checks that docs/dependencies.md lists every direct dependency correctly, and that each dependency is used. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';

const root = new URL('..', import.meta.url).pathname;
const read = (path: string): string => readFileSync(join(root, path), 'utf8');

interface Package {
  readonly scripts: Readonly<Record<string, string>>;
  readonly dependencies: Readonly<Record<string, string>>;
  readonly optionalDependencies: Readonly<Record<string, string>>;
  readonly devDependencies: Readonly<Record<string, string>>;
}
interface LockedPackage {
  readonly version: string;
  readonly license?: string;
  readonly hasInstallScript?: boolean;
}

const manifest = JSON.parse(read('package.json')) as Package;
const { packages } = JSON.parse(read('package-lock.json')) as { packages: Record<string, LockedPackage> };
const { dependencies, optionalDependencies, devDependencies } = manifest;
const direct = { ...dependencies, ...optionalDependencies, ...devDependencies };

/** Rows of the tables in docs/dependencies.md: package, version, licence, install script. */
const rows = [
  ...read('docs/dependencies.md').matchAll(/^\| (?!package|-)(.+?) \| (.+?) \| (.+?) \| (.+?) \|/gm),
];

test('the list of dependencies matches package.json, each once', () => {
  expect(rows.map(([, name]) => name).sort()).toEqual(Object.keys(direct).sort());
});

test('each version, licence and install script matches the installed package', () => {
  const listed = rows.map(([, name = '', version, licence, script]) => ({ name, version, licence, script }));
  const installed = listed.map(({ name }) => {
    const locked = packages[`node_modules/${name}`];
    return {
      name,
      version: (direct[name] ?? '').replace(/^npm:.*@/, ''),
      licence: locked?.license,
      script: locked?.hasInstallScript ? 'yes' : 'no',
    };
  });
  expect(listed).toEqual(installed);
});

function sources(folder: string): string[] {
  return readdirSync(join(root, folder), { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return sources(path);
    return /\.(tsx?|mjs)$/.test(entry.name) && path !== 'test/dependencies.test.ts' ? [read(path)] : [];
  });
}

const runTime = [
  'cli',
  'control-plane',
  'data-plane',
  'agent',
  'schemas',
  'shared',
  'tools/dev',
  'tools/simulator',
].flatMap(sources);
const everywhere = [...runTime, ...['console', 'test', 'tools/bench', 'tools/scripts'].flatMap(sources)];

/** Whether a source file imports the package or loads it by name. */
function isNamed(name: string, texts: readonly string[]): boolean {
  return texts.some((text) => text.includes(`'${name}'`) || text.includes(`'${name}/`));
}

test('every run-time dependency is named in a run-time source', () => {
  const unused = Object.keys({ ...dependencies, ...optionalDependencies }).filter(
    (name) => !isNamed(name, runTime),
  );
  expect(unused).toEqual([]);
});

test('every development dependency is named in a source, runs in a script, or has types for another one', () => {
  const scripts = `${Object.values(manifest.scripts).join('\n')}\n${read('tools/scripts/build.mjs')}`;
  const unused = Object.keys(devDependencies).filter((name) => {
    const typed = /^@types\/(.+)$/.exec(name)?.[1];
    if (typed !== undefined) return typed !== 'node' && !(typed in direct);
    // Vitest itself loads this package if the script passes `--coverage`.
    if (name === '@vitest/coverage-v8') return !scripts.includes('--coverage');
    return !isNamed(name, everywhere) && !scripts.includes(name.split('/').at(-1) ?? name);
  });
  expect(unused).toEqual([]);
});
