/** Serves the built web pages from memory. A request only looks a file up in a map, so no path can leave the folder. */
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import type { IncomingHttpHeaders } from 'node:http';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const types: Readonly<Record<string, string>> = {
  html: 'text/html; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
  svg: 'image/svg+xml',
};

/** Cache rules for pages, for files whose name contains a digest of their content, and for others, such as the icon. */
const cacheControl = {
  page: 'no-cache',
  named: 'public, max-age=31536000, immutable',
  other: 'public, max-age=3600',
} as const;

interface StaticFile {
  readonly type: string;
  readonly etag: string;
  readonly lifetime: keyof typeof cacheControl;
  readonly bodies: Readonly<Record<'identity' | 'gzip' | 'br', Buffer | undefined>>;
}

/** Returns the folder of the built pages. Processes that run from source use the last build. */
export function builtFolder(name: 'console' | 'play'): string {
  const up = import.meta.url.endsWith('.ts') ? '../../dist' : '../..';
  return fileURLToPath(new URL(`${up}/${name}/`, import.meta.url));
}

export interface StaticAnswer {
  readonly status: 200 | 304;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer | undefined;
}

export class StaticFiles {
  readonly #files = new Map<string, StaticFile>();

  constructor(folder: string) {
    if (!existsSync(join(folder, 'index.html'))) return;
    for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
      if (!entry.isFile() || /\.(?:br|gz)$/.test(entry.name)) continue;
      const path = join(entry.parentPath, entry.name);
      const url = path.slice(join(folder, '/').length).replaceAll('\\', '/');
      const type = types[/\.(\w+)$/.exec(entry.name)?.[1] ?? ''];
      if (type !== undefined) this.#files.set(`/${url}`, loadFile(path, type));
    }
  }

  get isBuilt(): boolean {
    return this.#files.size > 0;
  }

  has(path: string): boolean {
    return this.#files.has(path);
  }

  /** Returns a file in the smallest encoding that the client accepts, or undefined if the file does not exist. */
  find(path: string, headers: IncomingHttpHeaders): StaticAnswer | undefined {
    const file = this.#files.get(path);
    if (!file) return undefined;
    const common = {
      etag: file.etag,
      vary: 'accept-encoding',
      'cache-control': cacheControl[file.lifetime],
    };
    if (headers['if-none-match'] === file.etag) return { status: 304, headers: common, body: undefined };
    const accepted = String(headers['accept-encoding'] ?? '');
    const coding = (['br', 'gzip'] as const).find(
      (name) => file.bodies[name] && new RegExp(`\\b${name}\\b(?!;q=0(?:\\.0*)?(?:,|$))`).test(accepted),
    );
    const typed = { ...common, 'content-type': file.type };
    return {
      status: 200,
      headers: coding ? { ...typed, 'content-encoding': coding } : typed,
      body: file.bodies[coding ?? 'identity'],
    };
  }
}

function loadFile(path: string, type: string): StaticFile {
  const identity = readFileSync(path);
  const optional = (name: string): Buffer | undefined => (existsSync(name) ? readFileSync(name) : undefined);
  const digest = createHash('sha256').update(identity).digest('base64url').slice(0, 22);
  return {
    type,
    etag: `"${digest}"`,
    lifetime: /-[\w-]{8,}\.\w+$/.test(path) ? 'named' : path.endsWith('.html') ? 'page' : 'other',
    bodies: { identity, gzip: optional(`${path}.gz`), br: optional(`${path}.br`) },
  };
}
