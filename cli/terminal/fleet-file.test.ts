/** Tests that a fleet file is read unchanged, or refused with the line and column of every fault. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { runs } from '../../test/support/budget.ts';
import { fleetFileBytesMax, formatFault, parseFleet } from './fleet-file.ts';

const example = `version: 1
models:        [{ id: echo-small, family: echo, weight: 1 }, { id: echo-large, family: echo, weight: 4 }]
tiers:
  - { id: Starter,  requestsPerMinute: 60,   concurrency: 4,   contextTokens: 8192,   monthlyTokens: 1000000,    models: [echo-small] }
  - { id: Platinum, requestsPerMinute: 6000, concurrency: 400, contextTokens: 131072, monthlyTokens: 1000000000, models: "*" }
anonymous:     { freeTurns: 10, requestsPerMinute: 10, concurrency: 1, contextTokens: 4096, models: [echo-small] }
pool:          { models: [echo-small, echo-large], nodes: [{ id: pool-1, url: "http://127.0.0.1:9001", dialect: vllm }] }
organisations:
  - id: acme
    name: Acme
    tier: Platinum
    anchor: 2026-11-01
    members: [{ person: ana, role: owner }]
    nodes:  [{ id: acme-1, url: "http://127.0.0.1:9002", dialect: llamacpp, credential: ACME, models: { echo-large: served } }]
    stacks: [{ id: stk-amber-otter-9k2f, surface: openai, models: [echo-large], nodes: [{ id: acme-s1, url: "http://127.0.0.1:9003", dialect: sglang, agent: true }] }]
`;

function lines(text: string): string[] {
  const parsed = parseFleet(text, 'f.yaml');
  return 'faults' in parsed ? parsed.faults.map(formatFault) : [];
}

test('a fleet file with every field is read unchanged', () => {
  const parsed = parseFleet(example, 'f.yaml');
  expect(parsed).toMatchObject({
    fleet: {
      tiers: [{ id: 'Starter', monthlyTokens: 1_000_000 }, { models: '*' }],
      organisations: [
        {
          anchor: '2026-11-01',
          nodes: [{ credential: 'ACME', models: { 'echo-large': 'served' } }],
          stacks: [{ id: 'stk-amber-otter-9k2f', nodes: [{ agent: true }] }],
        },
      ],
    },
  });
});

const head = `version: 1
models: [{ id: a, family: f }]
tiers: [{ id: T, models: [a] }]
`;
const org = `${head}organisations:\n  - id: o\n    name: O\n    `;
const two = `${head}organisations:\n  - { id: o, name: O`;
test.each([
  ['', '1:1 the file: is missing'],
  [
    'version: 1\nmodels: [',
    '2:10 Flow sequence in block collection must be sufficiently indented and end with a ]',
  ],
  ['version: 1\nversion: 1', '2:1 Map keys must be unique'],
  ['version: 2', '1:10 version: Invalid input: expected 1'],
  ['version: 1\nkeys:\n  - secret', '2:1 keys: no such field'],
  ['version: 1\nmodels:\n  - id: a', '3:5 models[0].family: is missing'],
  [
    'version: 1\nmodels:\n  - { id: a, family: f }\n  - { id: a, family: f }',
    '4:11 models[1].id: the model a is already at models[0].id',
  ],
  [
    'version: 1\nmodels: []\ntiers:\n  - id: T\n    models: [b]',
    '5:14 tiers[0].models[0]: the model b is not in models',
  ],
  [
    `${head}anonymous: { freeTurns: 1, models: [b] }`,
    '4:37 anonymous.models[0]: the model b is not in models',
  ],
  [
    'version: 1\ntiers:\n  - id: anonymous\n    models: "*"',
    '3:9 tiers[0].id: anonymous is a reserved name: visitors have a section of their own',
  ],
  [
    'version: 1\ntiers: [{ id: T, models: "*" }, { id: T, models: "*" }]',
    '2:39 tiers[1].id: the tier T is already at tiers[0].id',
  ],
  [`${head}pool: { models: [a, b] }`, '4:21 pool.models[1]: the model b is not in models'],
  [`${head}pool: { models: [a, a] }`, '4:21 pool.models[1]: the model a is already at pool.models[0]'],
  [`${two}, tier: U }`, '5:29 organisations[0].tier: the tier U is not in tiers'],
  [
    `${two} }\n  - { id: o, name: O }`,
    '6:11 organisations[1].id: the organisation o is already at organisations[0].id',
  ],
  [
    `${org}members: [{ person: p, role: owner }, { person: p, role: viewer }]`,
    '7:53 organisations[0].members[1].person: the member p is already at organisations[0].members[0].person',
  ],
  [
    `${org}members: [{ person: operator, role: owner }]`,
    '7:25 organisations[0].members[0].person: operator, checkpoint, restore are reserved names',
  ],
  [
    `${org}members: [{ person: p, role: boss }]`,
    '7:34 organisations[0].members[0].role: Invalid option: expected one of "owner"|"admin"|"approver"|"member"|"viewer"',
  ],
  [
    `${org}stacks: [{ id: stack-1 }]`,
    '7:20 organisations[0].stacks[0].id: must have the form stk-<word>-<word>-<suffix>',
  ],
  [
    `${two}, stacks: [{ id: stk-a-b-c }] }\n  - { id: q, name: Q, stacks: [{ id: stk-a-b-c }] }`,
    '6:38 organisations[1].stacks[0].id: the stack stk-a-b-c is already at organisations[0].stacks[0].id',
  ],
  [
    `${two}, stacks: [{ id: stk-a-b-c, models: [b] }] }`,
    '5:58 organisations[0].stacks[0].models[0]: the model b is not in models',
  ],
  [
    `${head}pool: { nodes: [{ id: n, url: "http://h:1", dialect: vllm }] }\norganisations:\n  - { id: o, name: O, nodes: [{ id: n, url: "http://h:1", dialect: vllm }] }`,
    '6:37 organisations[0].nodes[0].id: the node n is already at pool.nodes[0].id',
  ],
  [
    `${head}pool:\n  nodes:\n    - id: n\n      url: http://u:p@h:1\n      dialect: vllm`,
    '7:12 pool.nodes[0].url: must be an http or https URL without credentials',
  ],
  [
    `${head}pool:\n  nodes:\n    - id: n\n      url: http://h:1\n      dialect: tgi`,
    '8:16 pool.nodes[0].dialect: Invalid option: expected one of "vllm"|"sglang"|"llamacpp"|"ollama"',
  ],
  [
    'version: 1\ntiers:\n  - id: T\n    concurrency: -1\n    models: "*"',
    '4:18 tiers[0].concurrency: Too small: expected number to be >=0',
  ],
  [
    'version: 1\ntiers:\n  - id: T\n    models: all',
    '4:13 tiers[0].models: must be "*" or a list of model ids',
  ],
  [`${org}anchor: 2026-02-30`, '7:13 organisations[0].anchor: Invalid ISO date'],
])('a fault is reported by line and column: %j: %s', (text, fault) => {
  expect(lines(text)).toEqual([`f.yaml:${fault}`]);
});

test('faults of shape and of reference are all reported at once, in file order', () => {
  const text = `version: 1
models: [{ id: a, family: f, colour: red }]
tiers: [{ id: T, models: [b], concurrency: many }]
organisations:
  - { id: o, name: O, tier: U }
  - { id: o, tier: T }
`;
  expect(lines(text).map((line) => line.split(' ')[0])).toEqual([
    'f.yaml:2:30', // The field `colour` is unknown.
    'f.yaml:3:27', // The model `b` is unknown.
    'f.yaml:3:44', // `concurrency` is not a number.
    'f.yaml:5:29', // The tier `U` is unknown.
    'f.yaml:6:5', // The name is missing.
    'f.yaml:6:11', // The organisation `o` occurs a second time.
  ]);
});

test('references into an omitted section are not checked', () => {
  expect(lines('version: 1\norganisations: [{ id: o, name: O, tier: Platinum }]')).toEqual([]);
});

test('aliases are followed, and a fault in an alias is reported at its own place in the text', () => {
  const text = 'version: 1\nmodels:\n  - &m { id: a, family: 7 }\n  - *m';
  expect(lines(text)).toContain(
    'f.yaml:3:25 models[0].family: Invalid input: expected string, received number',
  );
});

test('a file of nested aliases is refused before it expands', () => {
  const bomb = ['a0: &a0 [x,x,x,x,x,x,x,x,x]'];
  for (let level = 1; level < 9; level++)
    bomb.push(
      `a${level}: &a${level} [${Array(9)
        .fill(`*a${level - 1}`)
        .join(',')}]`,
    );
  expect(lines(bomb.join('\n'))).toEqual([expect.stringContaining('Excessive alias count')]);
});

test('a file that is too large or nested too deeply is refused', () => {
  expect(lines(`# ${'x'.repeat(fleetFileBytesMax)}`)).toEqual([expect.stringContaining('is larger than')]);
  const nested = lines('['.repeat(20_000)).length;
  expect(nested).toBeGreaterThan(0);
  expect(nested).toBeLessThanOrEqual(200);
});

test('no text makes the reader throw', () => {
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.json()), (text) => {
      parseFleet(text, 'f.yaml');
      return true;
    }),
    { numRuns: runs({ fast: 60, full: 200 }) },
  );
});

test('a file broken at any point is read, or refused with faults inside it', () => {
  fc.assert(
    fc.property(
      fc.nat(example.length - 1),
      fc.constantFrom('', ':', '[', '}', '*x', '\t', '"'),
      (at, insert) => {
        const text = example.slice(0, at) + insert + example.slice(at + 1);
        const parsed = parseFleet(text, 'f.yaml');
        if ('fleet' in parsed) return true;
        const last = text.split('\n').length;
        return parsed.faults.length > 0 && parsed.faults.every(({ line }) => line >= 1 && line <= last);
      },
    ),
    { numRuns: runs({ fast: 60, full: 200 }) },
  );
});
