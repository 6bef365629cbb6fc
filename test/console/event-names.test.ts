/** Each kind of event says what was done to which thing, and every id of its data that has a page is a link of its sentence. */
import { expect, test } from 'vitest';
import { cutAt, type NamedThing, thingsIn } from '../../console/lib/event-names.ts';
import { eventSentence, eventText, eventTypeNames } from '../../schemas/event-sentences.ts';
import { type EventTypeName, eventTypes, writerSchema } from '../../schemas/events.ts';

const hash = 'a'.repeat(64);
const later = '2027-01-31T00:00:00.000Z';
const onNode = { id: 'n1', owner: 'c', generation: 1 };
const at = { url: 'http://127.0.0.1:1', dialect: 'vllm', agent: false };

/** By type: its data, and the kinds and ids that are links, in the order of the sentence. */
const table: Readonly<Record<EventTypeName, readonly (readonly [data: object, ...links: string[]])[]>> = {
  'log.created': [[{ log: 'log-1' }]],
  'log.signers_set': [[{ signers: ['k'] }]],
  'tier.set': [[{ id: 'Pro', rank: 1, models: ['m'] }, 'tier Pro']],
  'tier.removed': [[{ id: 'Pro' }, 'tier Pro']],
  'anonymous.set': [[{ freeTurns: 5, models: '*' }]],
  'bounds.set': [[{ keysPerOrganisation: 2000 }]],
  'model.set': [[{ id: 'm', family: 'f', added: later, weight: 2 }, 'model m']],
  'model.removed': [[{ id: 'm' }, 'model m']],
  'organisation.set': [
    [{ id: 'acme', name: 'Acme', tier: 'Pro', anchor: '2026-11-01' }, 'organisation acme', 'tier Pro'],
    [{ id: 'acme', name: 'Acme', tier: null, anchor: '2026-11-01' }, 'organisation acme'],
  ],
  'organisation.suspended': [
    [{ id: 'acme', suspended: true }, 'organisation acme'],
    [{ id: 'acme', suspended: false }, 'organisation acme'],
  ],
  'organisation.removed': [[{ id: 'acme' }, 'organisation acme']],
  'member.set': [
    [{ organisation: 'acme', person: 'vic', role: 'viewer' }, 'member vic in acme', 'organisation acme'],
  ],
  'member.removed': [[{ organisation: 'acme', person: 'vic' }, 'member vic in acme', 'organisation acme']],
  'key.created': [
    [
      { id: 'key-1', organisation: 'acme', name: 'the job', hash, expires: 'never', expiresAt: null },
      'key key-1 in acme',
      'organisation acme',
    ],
  ],
  'key.revoked': [[{ id: 'key-1' }, 'key key-1']],
  'stack.created': [
    [{ id: 'stk-a-b-1', organisation: 'acme', surface: 'openai' }, 'stack stk-a-b-1', 'organisation acme'],
  ],
  'stack.surface_set': [[{ id: 'stk-a-b-1', surface: 'anthropic' }, 'stack stk-a-b-1']],
  'stack.removed': [[{ id: 'stk-a-b-1' }, 'stack stk-a-b-1']],
  'stack.model_installed': [[{ stack: 'stk-a-b-1', model: 'm' }, 'model m', 'stack stk-a-b-1']],
  'stack.model_uninstalled': [[{ stack: 'stk-a-b-1', model: 'm' }, 'model m', 'stack stk-a-b-1']],
  'pool.model_installed': [[{ model: 'm' }, 'model m']],
  'pool.model_uninstalled': [[{ model: 'm' }, 'model m']],
  'node.registered': [
    [{ id: 'n1', place: { kind: 'pool' }, ...at }, 'node n1'],
    [{ id: 'n1', place: { kind: 'stack', id: 'stk-a-b-1' }, ...at }, 'node n1', 'stack stk-a-b-1'],
    [{ id: 'n1', place: { kind: 'organisation', id: 'acme' }, ...at }, 'node n1', 'organisation acme'],
  ],
  'node.drained': [[{ id: 'n1' }, 'node n1']],
  'node.undrained': [[{ id: 'n1' }, 'node n1']],
  'node.removed': [[{ id: 'n1' }, 'node n1']],
  'node.token_created': [[{ id: 'tok-1', node: 'n1', hash }, 'node n1']],
  'node.token_revoked': [[{ id: 'tok-1' }]],
  'node.joined': [[onNode, 'node n1']],
  'node.health_changed': [
    [{ ...onNode, up: true, models: ['m'] }, 'node n1'],
    [{ ...onNode, up: false, models: [], reason: 'no answer' }, 'node n1'],
  ],
  'usage.adjusted': [[{ organisation: 'acme', period: '2026-11-01', tokens: -5000 }, 'organisation acme']],
  'session.ended': [
    [{ kind: 'link', subject: hash, until: later }],
    [{ kind: 'person', subject: 'ana', until: later }],
  ],
  checkpoint: [[{ foldVersion: 1, digests: {} }]],
  no_op: [[{}]],
};

const linkOf = ({ kind, id, within }: NamedThing): string =>
  within === undefined ? `${kind} ${id}` : `${kind} ${id} in ${within}`;

function linksOf(type: string, data: object): string[] {
  const { subject, rest } = eventSentence(type, data);
  const things = thingsIn(type, data);
  const ofSubject = things.filter(({ id, name = id }) => subject === name).slice(0, 1);
  const others = cutAt(rest, things).filter((part): part is NamedThing => typeof part !== 'string');
  return [...ofSubject, ...others].map(linkOf);
}

test('the table has each type of event', () => {
  expect(Object.keys(table).sort()).toEqual(Object.keys(eventTypes).sort());
  expect([...eventTypeNames].sort()).toEqual(Object.keys(eventTypes).sort());
});

test.each(Object.entries(table))('%s leads to what it names', (type, cases) => {
  for (const [data, ...links] of cases) {
    expect(writerSchema(type as EventTypeName).parse(data)).toEqual(data);
    expect(linksOf(type, data)).toEqual(links);
    // Every id is in the sentence, but for what has a name there.
    for (const { id, name = id } of thingsIn(type, data)) expect(eventText(type, data)).toContain(name);
  }
});

test('data of any form is no error, and the text is kept', () => {
  for (const data of [undefined, null, 7, 'x', [], {}, { id: 7, place: 'pool' }])
    for (const type of [...Object.keys(eventTypes), 'later.thing']) {
      const { rest } = eventSentence(type, data);
      const parts = cutAt(rest, thingsIn(type, data));
      expect(parts.map((part) => (typeof part === 'string' ? part : part.id)).join('')).toBe(rest);
    }
});
