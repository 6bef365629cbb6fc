/**
 * Checks that every clause of the specification is cited by a test, and that every cited clause exists. The only exceptions
 * are clauses that leave something open ("not shown"), each with a reason.
 */
import { readFileSync } from 'node:fs';
import { relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { citationsIn, citationsUnder, clausesOf, testNames } from './support/clauses.ts';

const root = fileURLToPath(new URL('..', import.meta.url));
const clauses = clausesOf(readFileSync(new URL('../docs/specification.md', import.meta.url), 'utf8'));
/** Leaves out this file, because the samples in it are not tests. */
const citations = citationsUnder(root).filter(({ file }) => file !== fileURLToPath(import.meta.url));

/** Clauses that need no test, each with the reason. */
const exempt: Readonly<Record<string, string>> = {
  'API key 4': 'further fields of a key record are left open',
  'Limits 7': 'the numbers are left open; an operator sets them',
};

test('the whole specification is read: each chapter has the expected number of clauses', () => {
  const counts: Record<string, number> = {};
  for (const clause of clauses.keys()) {
    const list = clause.replace(/ \d+$/, '');
    counts[list] = (counts[list] ?? 0) + 1;
  }
  expect(counts).toEqual({
    'What the service does': 5,
    'Routing algorithm': 3,
    'Routing rule': 7,
    Stack: 2,
    'API key': 4,
    'Model listing entry': 2,
    'Error envelope': 1,
    States: 2,
    Endpoints: 3,
    'Endpoints rule': 8,
    Authentication: 11,
    'Stream behaviour': 1,
    Errors: 10,
    'Errors further rule': 2,
    Limits: 8,
    Versioning: 1,
  });
});

test('every clause has a test that cites it or a reason for having none', () => {
  const cited = new Set(citations.map(({ clause }) => clause));
  const missing = [...clauses.keys()].filter(
    (clause) => !cited.has(clause) && !Object.hasOwn(exempt, clause),
  );
  expect(missing).toEqual([]);
});

test('every clause that a test cites exists', () => {
  const unknown = citations
    .filter(({ clause }) => !clauses.has(clause))
    .map(({ clause, file, name }) => `${clause} in ${relative(root, file)}: ${name}`);
  expect(unknown).toEqual([]);
});

test('only clauses left open by the specification are exempt, and only while no test cites them', () => {
  const cited = new Set(citations.map(({ clause }) => clause));
  for (const clause of Object.keys(exempt)) {
    expect(clauses.get(clause), clause).toContain('not shown');
    expect(cited.has(clause), `${clause} is tested and needs no exemption`).toBe(false);
  }
});

test.each([
  ["test('Errors 7: one', () => {", ['Errors 7']],
  [
    "test.each([\n  'Errors 1: data',\n])('Errors 6, Routing rule 4: two', (x) => {",
    ['Errors 6', 'Routing rule 4'],
  ],
  ['test.each`a`("Limits 2: a \\"b\\"", () => {', ['Limits 2']],
  ["test(\n  'Stream behaviour: three',\n  async () => {", ['Stream behaviour']],
  ["test.skip('Errors 8: not run', () => {", []],
  ["test.todo('Errors 9: not written');", []],
  ["test('Nothing at all: four', () => {", []],
  ["expect(x).toBe('Errors 10: no name');", []],
])('citations are found in a source (%#)', (source, expected) => {
  expect(testNames(source).flatMap(citationsIn)).toEqual(expected);
});
