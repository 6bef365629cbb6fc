/**
 * Words that nobody searches for stay out of sources, tests and documents, in identifiers too: `lastTold` counts as "told".
 * The glossary of ARCHITECTURE.md has the words to use. Quotations of the specification are exempt.
 */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { logEvents } from '../schemas/log-events.ts';

const root = new URL('..', import.meta.url).pathname;

/** What not to write, and what to write instead. */
const banned: readonly (readonly [pattern: string, instead: string])[] = [
  ['tell|tells|telling|told', 'report, state, return, contain'],
  ['hear|hears|heard|hearsay', 'receive, read'],
  ['mend|mends|mended|mending', 'fix, repair, recover'],
  ['anew', 'again, new'],
  ['whoever|whosoever', 'the one that, any'],
  ['of ours|in our words|our own words', 'own, internal'],
  ['for ever', 'without end, permanently'],
  ['felt', 'noticed, visible'],
  ['hasty|guilt|guilty|stumble|stumbles|stumbled', 'optimistic, fault, fail'],
  ['wish|wishes|wished', 'desired state, request'],
  ['patience|patiently|hopeless', 'retry policy, give up'],
  ['stranger|strangers', 'unknown, foreign'],
  ['stood', 'was'],
  ['besides|beside', 'in addition, next to, with'],
  ['news', 'event, message, change'],
  ['gives back|give back|gave back|giving back', 'release, return'],
  ['lets go of|let go of|letting go of', 'release'],
  ['at hand', 'available'],
  ['beat|beats|beating', 'heartbeat'],
  ['put aside|puts aside|putting aside', 'quarantine'],
  ['goes on|go on|went on|going on', 'continue'],
];
const pattern = new RegExp(`\\b(?:${banned.map(([words]) => words).join('|')})\\b`, 'gi');

const exempt = new Set(['docs/specification.md', 'test/words.test.ts', 'CHANGELOG.md']);
const files = execFileSync('git', ['ls-files'], { cwd: root, encoding: 'utf8' })
  .split('\n')
  .filter((path) => /\.(ts|mjs|md|yml|sh)$|^\.ci\/run$/.test(path))
  .filter((path) => !exempt.has(path) && !path.startsWith('test/fixtures/'));

const law = readFileSync(join(root, 'docs/specification.md'), 'utf8').replace(/\s+/g, ' ');

/** Names and texts of the agents' protocol and of the admin API, which stay. */
const wireTerms = /\bBeat\b|\bbeatSeconds\b|'beat'|'no beat in time'/g;

/** Words of identifiers apart: `toldAtMs` as `told At Ms`. */
const apart = (text: string): string => text.replace(/([a-z0-9])([A-Z])/g, '$1 $2').replace(/_/g, ' ');

/** A line that quotes the specification has at least four words in a row of it around the banned one. */
function isQuotation(line: string, index: number, word: string): boolean {
  const before = line.slice(0, index).split(/\s+/).slice(-2).join(' ').replace(/^\W+/, '');
  const after = line
    .slice(index + word.length)
    .split(/\s+/)
    .slice(0, 3)
    .join(' ')
    .replace(/\W+$/, '');
  return law.includes(`${before}${word}${after}`);
}

function faultsIn(path: string): string[] {
  return readFileSync(join(root, path), 'utf8')
    .split('\n')
    .flatMap((text, line) => {
      const words = apart(text.replace(wireTerms, ''));
      return [...words.matchAll(pattern)]
        .filter(({ 0: word, index }) => !isQuotation(words, index, word))
        .map(([word]) => {
          const [, instead] = banned.find(([list]) => new RegExp(`^(?:${list})$`, 'i').test(word)) ?? [];
          return `${path}:${line + 1}: "${word}" (use: ${instead})`;
        });
    });
}

test('sources, tests and documents use words that an engineer would search for', () => {
  expect(files.flatMap(faultsIn)).toEqual([]);
});

test('the list of log lines has none that nothing writes', () => {
  const written = files
    .filter((path) =>
      /^(?:admin-client|agent|cli|control-plane|data-plane|dev|shared)\/.*(?<!\.test)\.ts$/.test(path),
    )
    .map((path) => readFileSync(join(root, path), 'utf8'));
  const texts = Object.values(logEvents).map(([, text]) => text);
  expect(texts.filter((text) => !written.some((source) => source.includes(`'${text}'`)))).toEqual([]);
  expect(new Set(texts).size).toBe(texts.length);
});
