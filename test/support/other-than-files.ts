/** Things other than a regular file that a test can put in place of an expected file of a few kilobytes. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs';

type Put = (path: string) => void;

export const otherThanFiles: readonly (readonly [what: string, put: Put])[] = [
  ['a pipe', (path) => void execFileSync('mkfifo', [path])],
  ['a folder', (path) => mkdirSync(path)],
  ['a link to a device', (path) => symlinkSync('/dev/zero', path)],
  ['nothing', (path) => writeFileSync(path, '')],
  [
    'a hundred gigabytes without content',
    (path) => {
      writeFileSync(path, '');
      truncateSync(path, 100 * 1024 ** 3);
    },
  ],
];
