/**
 * Tests the sentence for each event type. It must say what was done to which object, and must link every id that has a page.
 */
import { expect, test } from 'vitest';
import { findNamedThings, type NamedThing, splitAtThings } from '../../console/lib/event-names.ts';
import { type EventTypeName, eventTypeNames } from '../../schemas/events/event-definitions.ts';
import { eventSentence, eventText } from '../../schemas/events/event-sentences.ts';
import { writerSchema } from '../../schemas/events/events.ts';
import { randomEvent } from '../support/commits.ts';
import { seededRandom } from '../support/random.ts';

const linkOf = ({ kind, id, within }: NamedThing): string =>
  within === undefined ? `${kind} ${id}` : `${kind} ${id} in ${within}`;

function linksOf(type: string, data: object): string[] {
  const { subject, rest } = eventSentence(type, data);
  const things = findNamedThings(type, data);
  const ofSubject = things.filter(({ id, name = id }) => subject === name).slice(0, 1);
  const others = splitAtThings(rest, things).filter((part): part is NamedThing => typeof part !== 'string');
  return [...ofSubject, ...others].map(linkOf);
}

const random = seededRandom(7);
const samples = eventTypeNames.map((type) => {
  const drawn = Array.from({ length: 50 }, () => randomEvent(random, type).data);
  return [type, drawn] as const;
});

test.each(samples)('%s links to everything that it names', (type, drawn) => {
  for (const data of drawn) {
    expect(writerSchema(type).parse(data)).toEqual(data);
    const things = findNamedThings(type, data);
    expect(linksOf(type, data).sort()).toEqual(things.map(linkOf).sort());
    // The sentence must contain every id, or the object's name instead of the id.
    for (const { id, name = id } of things) expect(eventText(type, data)).toContain(name);
  }
});

test('only a few event types name nothing that has a page', () => {
  const silent = samples.filter(([type, drawn]) =>
    drawn.every((data) => findNamedThings(type, data).length === 0),
  );
  expect(silent.map(([type]) => type)).toEqual([
    ...(['log.created', 'log.signers_set', 'anonymous.set', 'anonymous.removed', 'bounds.set'] as const),
    ...(['node.token_revoked'] as const),
    ...(['session.ended', 'checkpoint', 'no_op'] as const),
    ...(['change.staged', 'change.advanced', 'change.withdrawn', 'change.completed'] as const),
  ] satisfies EventTypeName[]);
});

test.each([
  ['organisation.set', { id: 'acme', tier: 'Pro' }, ['organisation acme', 'tier Pro']],
  ['organisation.set', { id: 'acme', tier: null }, ['organisation acme']],
  ['member.set', { organisation: 'acme', person: 'vic' }, ['member vic in acme', 'organisation acme']],
  [
    'key.created',
    { id: 'key-1', organisation: 'acme', name: 'the job' },
    ['key key-1 in acme', 'organisation acme'],
  ],
  ['node.registered', { id: 'n1', place: { kind: 'stack', id: 'stk-a' } }, ['node n1', 'stack stk-a']],
  ['node.token_created', { id: 'tok-1', node: 'n1' }, ['node n1']],
  ['key.of_a_later_build', { id: 'key-1' }, ['key key-1']],
])('%s %j links to: %j', (type, data, links) => {
  expect(linksOf(type, data)).toEqual(links);
});

test('data of any form causes no error, and the text stays', () => {
  for (const data of [undefined, null, 7, 'x', [], {}, { id: 7, place: 'pool' }])
    for (const type of [...eventTypeNames, 'later.thing']) {
      const { rest } = eventSentence(type, data);
      const parts = splitAtThings(rest, findNamedThings(type, data));
      expect(parts.map((part) => (typeof part === 'string' ? part : part.id)).join('')).toBe(rest);
    }
});
