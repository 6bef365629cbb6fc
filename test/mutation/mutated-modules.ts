/**
 * Builds the deciding modules with one source file changed. The files of the project stay untouched: the changed module and
 * all modules that import it are written to a private folder, and import everything else from its original place.
 */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { type Mutation, mutate } from './mutations.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));

/** Paths of the modules that make decisions, relative to the project's root. */
export const decidingModules = [
  'schemas/api/refusals.ts',
  'shared/decision/refusal.ts',
  'shared/decision/trace.ts',
  'shared/decision/authenticate.ts',
  'shared/decision/route.ts',
  'shared/decision/model-listing.ts',
  'shared/decision/admission.ts',
  'shared/decision/decide.ts',
  'shared/decision/limits.ts',
  'control-plane/explain/recorded-counters.ts',
  'test/replay/decisions/replay.ts',
] as const;

export type DecidingModule = (typeof decidingModules)[number];

const sources = new Map<string, string>(
  decidingModules.map((module) => [module, readFileSync(join(root, module), 'utf8')]),
);

const importPath = /from '(\.{1,2}\/[^']+)'/g;

function importsOf(module: string, source: string): string[] {
  return [...source.matchAll(importPath)].map(([, path = '']) =>
    relative(root, resolve(root, dirname(module), path)),
  );
}

/** Returns the changed module and all modules that import it, directly or indirectly. */
function reaching(changed: string): Set<string> {
  const found = new Set([changed]);
  for (let size = 0; size !== found.size; ) {
    size = found.size;
    for (const [module, source] of sources)
      if (importsOf(module, source).some((path) => found.has(path))) found.add(module);
  }
  return found;
}

/** A private folder with builds, which `close` removes. */
export class MutatedModules {
  readonly #folder = mkdtempSync(join(tmpdir(), 'headgate-mutation-'));
  #built = 0;

  /** Writes a build, with or without a mutation, and returns the path of its `entry`. */
  build(entry: DecidingModule, mutation?: Mutation): string {
    const folder = join(this.#folder, String(this.#built++));
    const own = reaching(mutation?.module ?? 'schemas/api/refusals.ts');
    for (const module of own) {
      const plain = sources.get(module) ?? '';
      const source = module === mutation?.module ? mutate(plain, mutation) : plain;
      const linked = source.replace(importPath, (whole, path: string) => {
        const target = resolve(root, dirname(module), path);
        return own.has(relative(root, target)) ? whole : `from '${pathToFileURL(target).href}'`;
      });
      mkdirSync(dirname(join(folder, module)), { recursive: true });
      writeFileSync(join(folder, module), linked);
    }
    return join(folder, entry);
  }

  close(): void {
    rmSync(this.#folder, { recursive: true, force: true });
  }
}
