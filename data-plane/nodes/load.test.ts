import fc from 'fast-check';
import { expect, test } from 'vitest';
import { NodeLoad, type NodeOutcome } from './load.ts';

const nodes = (...ids: string[]) => ids.map((node) => ({ node }));

function loadAt(random: () => number = Math.random) {
  const clock = { ms: 0 };
  return { clock, load: new NodeLoad({ now: () => clock.ms, random }) };
}

function attempt(load: NodeLoad, node: string, outcome: NodeOutcome, times = 1, owner = 'one'): void {
  for (let i = 0; i < times; i += 1) {
    load.begin(node);
    load.end(node, outcome, owner);
  }
}

test('of two random nodes, the one with fewer requests in flight is chosen', () => {
  const { load } = loadAt();
  load.begin('busy');
  const chosen = Array.from({ length: 50 }, () => load.choose(nodes('busy', 'idle'))?.node);
  expect(new Set(chosen)).toEqual(new Set(['idle']));
});

test('equally loaded nodes are all used', () => {
  const { load } = loadAt();
  const chosen = Array.from({ length: 300 }, () => load.choose(nodes('a', 'b', 'c'))?.node);
  expect(new Set(chosen)).toEqual(new Set(['a', 'b', 'c']));
});

test('the two choices are never the same node', () => {
  const { load } = loadAt(() => 0);
  load.begin('a');
  expect(load.choose(nodes('a', 'b', 'c'))?.node).toBe('b');
});

test('a node that accepts no connection is set aside for 1 s, then twice as long each time, up to 30 s', () => {
  const { load, clock } = loadAt();
  for (const seconds of [1, 2, 4, 8, 16, 30, 30]) {
    attempt(load, 'dead', 'unreached');
    clock.ms += seconds * 1000 - 1;
    expect(load.isEjected('dead')).toBe(true);
    clock.ms += 1;
    expect(load.isEjected('dead')).toBe(false);
  }
});

/** Sends a request whose client gives up after this many seconds without an answer. */
function giveUp({ load, clock }: ReturnType<typeof loadAt>, seconds: number): void {
  load.begin('n');
  clock.ms += seconds * 1000;
  load.end('n', 'neutral');
}

test.each([
  [2, 6],
  [5, 3],
  [60, 3],
])('a node that never answers is set aside if clients give up after %i s, at request %i', (seconds, at) => {
  const node = loadAt();
  for (let request = 1; request < at; request += 1) {
    giveUp(node, seconds);
    expect(node.load.isEjected('n')).toBe(false);
  }
  node.load.begin('n');
  expect([node.load.isEjected('n'), node.load.hanging()]).toEqual([true, ['n']]);
});

test('a node that hangs gets about one request per 30 s until it begins to answer one', () => {
  const { load, clock } = loadAt();
  let sent = 0;
  for (; clock.ms < 600_000; clock.ms += 1000) {
    if (load.choose(nodes('n', 'well'))?.node !== 'n' && load.isEjected('n')) continue;
    load.begin('n');
    sent += 1;
  }
  expect(sent).toBeLessThan(11 + 600 / 25);
  load.answering('n');
  expect([load.isEjected('n'), load.hanging()]).toEqual([false, []]);
  clock.ms += 60_000;
  load.begin('n');
  expect(load.hanging()).toEqual([]);
});

test('a node that answers one request in ten seconds, or is rarely called, does not count as hanging', () => {
  const busy = loadAt();
  for (let second = 0; second < 100; second += 1) {
    giveUp(busy, 1);
    if (second % 9 === 0) busy.load.answering('n');
    expect(busy.load.hanging()).toEqual([]);
  }
  const idle = loadAt();
  for (let request = 0; request < 10; request += 1) {
    giveUp(idle, 1);
    idle.clock.ms += 11_000;
    // A successful token count does not show that the node works, because another part of the engine counts tokens.
    idle.load.begin('n', false);
    idle.load.end('n', 'neutral');
    idle.clock.ms += 11_000;
    expect(idle.load.hanging()).toEqual([]);
  }
});

test('a node that hung is no longer reported ten minutes after its last request', () => {
  const node = loadAt();
  for (let request = 0; request < 4; request += 1) giveUp(node, 5);
  expect(node.load.hanging()).toEqual(['n']);
  node.clock.ms += 600_000;
  expect(node.load.hanging()).toEqual([]);
});

test('a node whose answers broke off three times in a row is set aside, and one success clears the count', () => {
  const { load } = loadAt();
  attempt(load, 'n', 'broken', 2);
  attempt(load, 'n', 'answered');
  attempt(load, 'n', 'broken', 2);
  expect(load.isEjected('n')).toBe(false);
  attempt(load, 'n', 'broken');
  expect(load.isEjected('n')).toBe(true);
  attempt(load, 'n', 'answered');
  expect(load.isEjected('n')).toBe(false);
});

test('a failure that the request may have caused counts once per tenant until an answer succeeds', () => {
  const { load, clock } = loadAt();
  // Keep one request in flight, so that the node's state is not dropped.
  load.begin('n');
  const fromEach = (...owners: string[]): boolean => {
    for (const owner of owners) attempt(load, 'n', 'suspect', 1, owner);
    return load.isEjected('n');
  };
  attempt(load, 'n', 'suspect', 100, 'one');
  expect(fromEach('other', 'one', 'other')).toBe(false);
  attempt(load, 'n', 'answered');
  expect(fromEach('third', 'one')).toBe(false);
  expect(fromEach('other')).toBe(true);
  // After the ejection has ended, a failure of each tenant may count again.
  clock.ms += 1000;
  expect(fromEach('one', 'other')).toBe(false);
  expect(fromEach('third')).toBe(true);
});

test('a tenant’s first suspect answer counts like any broken answer', () => {
  const { load } = loadAt();
  attempt(load, 'n', 'suspect', 5);
  attempt(load, 'n', 'broken', 1);
  expect(load.isEjected('n')).toBe(false);
  attempt(load, 'n', 'broken', 1);
  expect(load.isEjected('n')).toBe(true);
});

test('many requests that end together eject a node only once', () => {
  const { load, clock } = loadAt();
  for (let i = 0; i < 20; i += 1) load.begin('n');
  for (let i = 0; i < 20; i += 1) load.end('n', 'unreached');
  clock.ms += 1000;
  expect(load.isEjected('n')).toBe(false);
});

test('clients that leave and error responses never count against a node', () => {
  const { load } = loadAt();
  attempt(load, 'n', 'neutral', 1000);
  expect(load.isEjected('n')).toBe(false);
});

test('an ejected node is passed over unless only ejected candidates remain', () => {
  const { load } = loadAt();
  attempt(load, 'dead', 'unreached');
  const chosen = Array.from({ length: 50 }, () => load.choose(nodes('dead', 'b', 'c'))?.node);
  expect(chosen).not.toContain('dead');
  attempt(load, 'b', 'unreached');
  expect(load.choose(nodes('dead', 'b'))).toBeDefined();
  expect(load.choose(nodes('dead'))?.node).toBe('dead');
  expect(load.choose([])).toBeUndefined();
});

test('whatever happens, the counts return to zero', () => {
  const step = fc.record({
    node: fc.constantFrom('a', 'b', 'c'),
    outcome: fc.constantFrom<NodeOutcome>('answered', 'unreached', 'broken', 'suspect', 'neutral'),
    held: fc.nat(3),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const { load, clock } = loadAt();
      const open: { node: string; outcome: NodeOutcome }[] = [];
      for (const { node, outcome, held } of steps) {
        clock.ms += 100;
        load.begin(node);
        open.push({ node, outcome });
        expect(load.inFlightTotal()).toBe(open.length);
        while (open.length > held) {
          const ended = open.shift()!;
          load.end(ended.node, ended.outcome);
        }
      }
      for (const { node, outcome } of open) load.end(node, outcome);
      expect(load.inFlightTotal()).toBe(0);
    }),
  );
});
