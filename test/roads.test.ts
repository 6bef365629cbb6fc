/** docs/a-request.md and docs/an-event.md walk the two roads in few steps; `roads.process.test.ts` walks them. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { roadPage, root } from './support/road-pages.ts';

test.each(['docs/a-request.md', 'docs/an-event.md'])(
  '%s has at most 25 steps, numbered without a gap',
  (page) => {
    const { steps } = roadPage(page);
    expect(steps.length).toBeGreaterThan(10);
    expect(steps.length).toBeLessThanOrEqual(25);
    expect(steps).toEqual(steps.map((_, index) => index + 1));
  },
);

test.each(['docs/a-request.md', 'docs/an-event.md'])(
  '%s names each file once, and functions that their files have',
  (page) => {
    const { files, functions } = roadPage(page);
    expect(files.filter((file, index) => files.indexOf(file) !== index)).toEqual([]);
    const isThere = (named: string): boolean => {
      // Of a member stands its own name in the file, without that of its class.
      const [, file = '', name = ''] = /^([^#]+)#(?:.*\.)?(#?\w+)$/.exec(named) ?? [];
      return readFileSync(join(root, file), 'utf8').includes(name);
    };
    expect(functions.filter((named) => !isThere(named))).toEqual([]);
  },
);
