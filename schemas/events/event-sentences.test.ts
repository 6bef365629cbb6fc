import { expect, test } from 'vitest';
import { eventTypeNames } from './event-definitions.ts';
import { eventSentence, eventText } from './event-sentences.ts';

test('every event type has a sentence, whatever its data', () => {
  for (const type of eventTypeNames)
    for (const data of [{}, null, 'x', { id: 7, place: 'x', tokens: 'x', signers: 1, up: 1 }]) {
      const { verb } = eventSentence(type, data);
      expect(verb, type).not.toBe('');
      expect(eventText(type, data), type).not.toMatch(/undefined|null|NaN|\[object|[{}"]/);
    }
});

test.each([
  ['tier.set', { id: 'Pro' }, 'defined the tier Pro'],
  ['organisation.set', { id: 'acme', tier: 'Pro' }, 'put the organisation acme on the tier Pro'],
  ['organisation.set', { id: 'acme', tier: null }, 'put the organisation acme on no tier'],
  ['organisation.suspended', { id: 'acme', suspended: false }, 'resumed the organisation acme'],
  ['member.set', { organisation: 'acme', person: 'ana', role: 'owner' }, 'made ana owner of acme'],
  ['key.created', { id: 'key-1', name: 'ci', organisation: 'acme' }, 'created the key ci for acme'],
  ['key.created', { name: 'my laptop', organisation: 'acme' }, 'created the key "my laptop" for acme'],
  ['stack.surface_set', { id: 'stk-a', surface: 'anthropic' }, 'switched the stack stk-a to anthropic'],
  ['stack.model_installed', { stack: 'stk-a', model: 'm1' }, 'installed m1 on stk-a'],
  ['node.registered', { id: 'n1', place: { kind: 'pool' } }, 'registered the node n1 in the pool'],
  ['node.registered', { id: 'n1', place: { kind: 'stack', id: 'stk-a' } }, 'registered the node n1 in stk-a'],
  [
    'node.registered',
    { id: 'n1', place: { kind: 'organisation', id: 'acme' } },
    'registered the node n1 for acme',
  ],
  ['node.health_changed', { id: 'n1', up: true }, 'put n1 into service'],
  ['node.health_changed', { id: 'n1', up: false, reason: 'refused' }, 'took n1 out of service: refused'],
  [
    'usage.adjusted',
    { organisation: 'acme', tokens: -50_000 },
    'adjusted the usage of acme by -50,000 tokens',
  ],
  ['log.signers_set', { signers: ['a', 'b'] }, 'set the signers of the log to 2'],
  ['session.ended', { kind: 'link', subject: 'x' }, 'used a sign-in link'],
  ['session.ended', { kind: 'person', subject: 'ana' }, 'ended all sessions of ana'],
  ['of.a_later_version', { id: 'x' }, 'of a later version x'],
])('%s %j: %s', (type, data, text) => {
  expect(eventText(type, data)).toBe(text);
});
