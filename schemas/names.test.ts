/** Tests how names are checked and escaped on the way from a person into the log, and on to terminals and pages. */
import { expect, test } from 'vitest';
import { toCsv } from '../console/lib/csv.ts';
import { bodySchemas } from './admin/commands.ts';
import { readEvent } from './events/events.ts';
import { declaredFleetSchema, fleetSchema } from './events/fleet.ts';
import { nameSchema } from './names.ts';
import { printable } from './printable.ts';

const hidden = [
  ...['\u202e', '\u202a', '\u2066', '\u2069', '\u200e', '\u200f', '\u061c'],
  ...['\u200b', '\u2060', '\ufeff', '\u00ad', '\u034f', '\u3164', '\u{e0041}', '\u2028'],
];
const spoofs = [...hidden.map((mark) => `a${mark}b`), 'ad\u200dmin', 'ad\u200cmin', '\u200dx', 'x\ufe0f'];

test.each(spoofs)('nobody may use the name %j, but it folds if the log contains it', (name) => {
  expect(nameSchema.safeParse(name).success).toBe(false);
  const key = { organisation: 'acme', name, expires: 'never' };
  expect(bodySchemas.createKey.safeParse(key).success).toBe(false);
  const fleet = { version: 1, organisations: [{ id: 'acme', name }] };
  expect(declaredFleetSchema.safeParse(fleet).success).toBe(false);
  expect(fleetSchema.safeParse(fleet).success).toBe(true);
  const data = { id: 'acme', name, tier: null, anchor: '2026-11-01' };
  expect(readEvent({ type: 'organisation.set', v: 1, critical: true, data }).outcome).toBe('known');
});

test.each(['http://h:1/a?b=c', 'http://h:1/?', 'https://h/#x'])(
  'nobody may give a node the address %s, but it folds if the log contains it',
  (url) => {
    const node = { id: 'n1', url, dialect: 'vllm', place: { kind: 'pool' } };
    expect(bodySchemas.registerNode.safeParse(node).success).toBe(false);
    expect(bodySchemas.registerNode.safeParse({ ...node, url: 'http://h:1/a' }).success).toBe(true);
    const data = { ...node, agent: false };
    expect(readEvent({ type: 'node.registered', v: 1, critical: true, data }).outcome).toBe('known');
  },
);

test.each([
  'Büro Zürich',
  'می\u200cخواهم',
  'क्\u200dष',
  '東京 支店',
  'שלום',
  '👩\u200d💻 team',
  '❤\ufe0f',
  '🏳\ufe0f\u200d🌈',
])('%j is accepted as a name', (name) => {
  expect(nameSchema.safeParse(name).success).toBe(true);
});

test.each([...hidden, '\u001b', '\u009b', '\u0000'])('%j is made visible wherever text is shown', (mark) => {
  expect(printable(`a${mark}b`)).toMatch(/^a(?:\\u[0-9a-f]{4})+b$/);
  expect(printable('👩\u200d💻 می\u200cخواهم')).toBe('👩\u200d💻 می\u200cخواهم');
});

const formulas = ['=HYPERLINK(1)', '+1', '-1', '@SUM(1)', '\uff1d1', ' =1', '\u00a0=1', '"=1', "'=1"];
const starts = ['', 'x;', 'x,', 'x|', 'x;;', 'x; '];

test.each(starts.flatMap((start) => formulas.map((formula) => start + formula)))(
  'the key name %j is not a formula in any spreadsheet cell, whatever the separator',
  (keyName) => {
    const sums = { requests: 1, promptTokens: 1, completionTokens: 1, firstTokenMs: [] };
    const [, line = ''] = toCsv([{ day: '2026-11-01', model: 'm', key: 'k', keyName, ...sums }]).split(
      '\r\n',
    );
    for (const separator of [',', ';', '|', '\t'])
      for (const cell of line.split(separator)) expect(cell).not.toMatch(/^[\s'"]*(?<!')[=+\-@\uff1d]/);
    expect(line.replaceAll('""', '')).toMatch(/^"2026-11-01","m","[^"]*","k",1,1,1,2,,$/);
  },
);
