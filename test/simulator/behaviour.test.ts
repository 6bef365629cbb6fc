/**
 * Tests that a behaviour document determines exactly which requests fail, and that the error for an invalid document names
 * the path of the invalid member.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { folderOfTest } from '../support/folders.ts';
import { BehaviourInvalid, parseBehaviour, RuleBook } from './behaviour.ts';

const chat = { method: 'POST', path: '/v1/chat/completions', model: 'a', stream: true };
const capture = '=== RESPONSE\nHTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n\n=== END eof; 1 bytes\n';

test('an empty document describes a healthy node', () => {
  expect(new RuleBook(parseBehaviour('{}')).pick(chat)).toBeUndefined();
});

test.each([
  { match: {}, fires: [true, true, true, true, true, true] },
  { match: { everyNth: 3 }, fires: [false, false, true, false, false, true] },
  { match: { afterRequests: 4 }, fires: [false, false, false, false, true, true] },
  { match: { times: 2 }, fires: [true, true, false, false, false, false] },
  { match: { afterRequests: 1, everyNth: 2, times: 1 }, fires: [false, false, true, false, false, false] },
])('a rule counts its matching requests: $match', ({ match, fires }) => {
  const book = new RuleBook(parseBehaviour({ rules: [{ match, fault: { kind: 'stall' } }] }));
  expect(fires.map(() => book.pick(chat) !== undefined)).toEqual(fires);
});

test.each([
  { match: { model: 'b' }, facts: chat, fires: false },
  { match: { stream: true }, facts: chat, fires: true },
  { match: { stream: false }, facts: chat, fires: false },
  { match: {}, facts: { ...chat, method: 'GET', path: '/v1/models' }, fires: false },
  { match: { path: '/health' }, facts: { ...chat, method: 'GET', path: '/health' }, fires: true },
  { match: { path: '/v1/embeddings' }, facts: chat, fires: false },
])('whether a rule with $match matches $facts.method $facts.path: $fires', ({ match, facts, fires }) => {
  const book = new RuleBook(parseBehaviour({ rules: [{ match, fault: { kind: 'stall' } }] }));
  expect(book.pick(facts) !== undefined).toBe(fires);
});

test('the first matching rule decides, and later rules do not count the request', () => {
  const rules = [
    { match: { times: 1 }, fault: { kind: 'stall' } },
    { match: { times: 1 }, fault: { kind: 'refuse' } },
  ];
  const book = new RuleBook(parseBehaviour({ rules }));
  expect([book.pick(chat)?.kind, book.pick(chat)?.kind, book.pick(chat)?.kind]).toEqual([
    'stall',
    'refuse',
    undefined,
  ]);
});

test.each([
  { document: '{', says: 'not JSON' },
  { document: { rules: [{ fault: { kind: 'explode' } }] }, says: 'rules[0].fault' },
  { document: { rules: [{ fault: { kind: 'cut', afterEvents: -1 } }] }, says: 'afterEvents' },
  { document: { rules: [], rule: 1 }, says: 'rule' },
  {
    document: { rules: [{ fault: { kind: 'status', status: 500, headers: { 'a\r\nb': 'c' } } }] },
    says: 'headers',
  },
  { document: { rules: [{ fault: { kind: 'replay', file: '/etc/hostname' } }] }, says: 'takes `text`' },
  { document: { rules: [{ fault: { kind: 'replay', text: 'nothing' } }] }, says: 'no answer' },
])('an invalid document is refused with the place of the fault: $says', ({ document, says }) => {
  expect(() => parseBehaviour(document)).toThrow(BehaviourInvalid);
  expect(() => parseBehaviour(document)).toThrow(says);
});

test('a capture named by its file is read from the document’s folder', () => {
  const folder = folderOfTest('sim-behaviour');
  writeFileSync(join(folder, 'a.txt'), capture);
  const behaviour = parseBehaviour({ rules: [{ fault: { kind: 'replay', file: 'a.txt' } }] }, folder);
  expect(behaviour.rules[0]?.fault).toEqual({ kind: 'replay', text: capture });
  const missing = { rules: [{ fault: { kind: 'replay', file: 'b.txt' } }] };
  expect(() => parseBehaviour(missing, folder)).toThrow('capture b.txt');
});
