import { expect, test } from 'vitest';
import { z } from 'zod';
import { smallFleet, TestState } from '../../test/support/state.ts';
import { commandHash } from './command-hash.ts';
import { authoriseCommand, parseInput } from './definition.ts';
import { commands } from './registry.ts';

test.each(commands.filter(({ access }) => access !== 'operator'))(
  '$name: a command of members declares which organisation it concerns',
  ({ organisationOf }) => {
    expect(organisationOf).toBeDefined();
  },
);

const texts: Record<string, { params?: object; body?: object }> = {
  'member.set': { params: { id: 'acme', person: 'cal' }, body: { role: 'viewer' } },
  'member.remove': { params: { id: 'acme', person: 'cal' } },
  'key.create': { body: { organisation: 'acme', name: 'k', expires: 'never' } },
  'key.revoke': { params: { id: 'key-acme' } },
  'stack.set-surface': { params: { id: 'stk-amber-otter-9k2f' }, body: { surface: 'anthropic' } },
  'stack.install': { params: { id: 'stk-amber-otter-9k2f', model: 'echo-small' } },
  'stack.uninstall': { params: { id: 'stk-amber-otter-9k2f', model: 'echo-large' } },
};
const roles = ['owner', 'admin', 'approver', 'member', 'viewer'] as const;
const byMembers = commands.filter((command) => command.access !== 'operator');

test('the commands of members are these and no others', () => {
  expect(byMembers.map(({ name }) => name).sort()).toEqual(Object.keys(texts).sort());
});

test.each(byMembers.flatMap((command) => roles.map((role) => [command.name, role, command.access] as const)))(
  '%s by %s is decided by the role alone',
  (name, role, allowed) => {
    const state = new TestState().given(smallFleet);
    state.given([{ type: 'member.set', data: { organisation: 'acme', person: 'bea', role } }]);
    state.given([{ type: 'member.set', data: { organisation: 'acme', person: 'cal', role: 'member' } }]);
    const decide = () => state.decide(name, texts[name], { actor: { person: 'bea' } });
    if (allowed.includes(role)) expect(decide().events.length).toBeGreaterThan(0);
    else expect(decide).toThrow(expect.objectContaining({ type: 'Forbidden' }));
    // A person of another organisation has no role here.
    const outsider = () => state.decide(name, texts[name], { actor: { person: 'zoe' } });
    expect(outsider).toThrow(expect.objectContaining({ type: 'Forbidden' }));
  },
);

test.each(commands.filter((command) => command.access === 'operator'))(
  '$name is for operators only, with any input',
  (definition) => {
    const state = new TestState().given(smallFleet);
    // Refused before the input is read, so any input will do.
    const input = parseInput({ ...definition, params: z.any(), body: z.any() }, {});
    const run = () => authoriseCommand(definition, state.db, input, { person: 'ana' });
    expect(run).toThrow(expect.objectContaining({ type: 'Forbidden', status: 403 }));
  },
);

test('every fault of a body is named with its path', () => {
  const create = commands.find(({ name }) => name === 'key.create');
  expect(() => parseInput(create!, { body: { organisation: 'A B', name: '', extra: 1 } })).toThrow(
    expect.objectContaining({
      type: 'InvalidCommand',
      details: expect.arrayContaining([
        expect.objectContaining({ path: 'organisation' }),
        expect.objectContaining({ path: 'name' }),
        expect.objectContaining({ path: 'expires' }),
        expect.objectContaining({ message: expect.stringContaining('extra') }),
      ]),
    }),
  );
});

test('one command has one hash, however it is written; another has another', () => {
  const hash = commandHash('a', { x: 1, y: undefined }, { b: [1, { d: 1, c: 2 }], a: null });
  expect(commandHash('a', { x: 1 }, { a: null, b: [1, { c: 2, d: 1 }] })).toBe(hash);
  expect(hash).toMatch(/^[0-9a-f]{64}$/);
  for (const other of [
    commandHash('b', { x: 1 }, { a: null, b: [1, { c: 2, d: 1 }] }),
    commandHash('a', { x: 2 }, { a: null, b: [1, { c: 2, d: 1 }] }),
    commandHash('a', { x: 1 }, { b: [1, { c: 2, d: 1 }] }),
    commandHash('a', { x: 1 }, { a: null, b: [{ c: 2, d: 1 }, 1] }),
    commandHash('a', { x: 1 }, { a: null, b: ['1', { c: 2, d: 1 }] }),
  ])
    expect(other).not.toBe(hash);
});
