import { readdirSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { diagnose } from './diagnose.ts';
import type { DoctorFacts } from './facts.ts';

type Facts = { [Name in keyof DoctorFacts]-?: NonNullable<DoctorFacts[Name]> };

const gigabyte = 1024 ** 3;
const now = Date.parse('2026-11-22T08:00:00Z');

const well: Facts = {
  now,
  machine: { node: '24.1.0', openFilesMax: 65_536, diskFreeBytes: 50 * gigabyte, takenPorts: [] },
  log: {
    refused: [],
    reachable: true,
    position: 5000,
    freshSeconds: 1,
    skipped: 0,
    isSigned: true,
    diskFreeBytes: 50 * gigabyte,
    history: { position: 5000, bytes: 1 },
    brokers: { faults: [], oldestBroker: 4.1, replicas: 3 },
    topics: [{ topic: 'headgate.status', skipped: 0 }],
  },
  controlPlanes: ['cp-1', 'cp-2'].map((name) => ({
    name,
    isSelf: name === 'cp-1',
    position: 5000,
    isDiverged: false,
    foldVersion: 2,
    sameLog: true,
    maySign: true,
    silentSeconds: 1,
  })),
  gateways: [
    {
      name: 'gw-1',
      state: 'SYNCED',
      lagEvents: 0,
      freshSeconds: 1,
      silentSeconds: 1,
      stalePolicy: 'fence',
      foldVersion: 2,
      sameLog: true,
      processes: 1,
    },
  ],
  probe: { gateway: 'gw-1', foreign: 'a', missing: 'a' },
  nodes: [
    { id: 'n-1', place: 'pool', up: true, drained: false, owner: 'cp-1', models: ['m'], failedLoads: [] },
  ],
  models: {
    catalog: ['m'],
    installs: [{ place: 'pool', model: 'm' }],
    tiers: [{ id: 'Team', models: '*' }],
    organisations: [{ id: 'acme', tier: 'Team', activeKeys: 1 }],
    members: [{ organisation: 'acme', person: 'ana' }],
    keys: [{ id: 'key-1', organisation: 'acme', expiresInDays: 30, createdBy: 'ana' }],
  },
  limits: {
    ...{ fileFaults: [], usageFaults: { lost: 0 } },
    ...{ counterDifferences: [], overweight: [] },
  },
  listeners: [{ name: 'admin', isLoopback: false, daysLeft: 60 }],
  changes: { open: { id: '17', openHours: 1, halted: [] }, withdrawn: [] },
};

function changed<Name extends keyof Facts>(name: Name, change: (part: Facts[Name]) => unknown): DoctorFacts {
  return { ...well, [name]: change(well[name]) };
}
const machine = (change: object): DoctorFacts => changed('machine', (part) => ({ ...part, ...change }));
const log = (change: object): DoctorFacts => changed('log', (part) => ({ ...part, ...change }));
const topics = (change: object): DoctorFacts =>
  log({ topics: [{ topic: 'headgate.status', skipped: 0, ...change }] });
const plane = (change: object): DoctorFacts =>
  changed('controlPlanes', ([first, second]) => [first, { ...second, ...change }]);
const gateway = (change: object): DoctorFacts => changed('gateways', ([first]) => [{ ...first, ...change }]);
const node = (change: object): DoctorFacts => changed('nodes', ([first]) => [{ ...first, ...change }]);
const models = (change: object): DoctorFacts => changed('models', (part) => ({ ...part, ...change }));
const limits = (change: object): DoctorFacts => changed('limits', (part) => ({ ...part, ...change }));
const listener = (change: object): DoctorFacts => changed('listeners', () => [{ name: 'admin', ...change }]);
const open = (change: object): DoctorFacts =>
  changed('changes', (part) => ({ ...part, open: { ...part.open, ...change } }));

/** Each row contains facts with one fault, then the finding that must follow. */
const faults: readonly (readonly [DoctorFacts, string])[] = [
  [machine({ node: '18.20.0' }), 'HG1001 fail'],
  [machine({ sqliteFault: 'not built' }), 'HG1002 fail'],
  [machine({ diskFreeBytes: 3 * gigabyte }), 'HG1003 warn'],
  [machine({ diskFreeBytes: gigabyte / 2 }), 'HG1003 fail'],
  [machine({ openFilesMax: 1024 }), 'HG1004 warn'],
  [machine({ readableSecrets: ['signer.pem'] }), 'HG1005 fail signer.pem'],
  [machine({ unwritable: ['data'] }), 'HG1006 fail data'],
  [{ ...machine({ node: '20.18.1' }), now: Date.parse('2028-01-01T00:00:00Z') }, 'HG1007 warn'],
  [machine({ takenPorts: [8080] }), 'HG1008 warn 8080'],
  [machine({ overgrown: [{ name: 'state.db-wal', bytes: 3e9 }] }), 'HG1009 warn state.db-wal'],
  [machine({ openToOthers: ['data/usage.db'] }), 'HG1010 warn data/usage.db'],
  [log({ reachable: false }), 'HG2001 fail'],
  [log({ fault: 'an unknown event' }), 'HG2002 fail'],
  [log({ freshSeconds: 20 }), 'HG2003 warn'],
  [log({ skipped: 5000 }), 'HG2004 warn'],
  [plane({ maySign: false }), 'HG2005 fail cp-2'],
  [log({ divergedAt: 3000 }), 'HG2006 fail'],
  [log({ history: { position: 100, bytes: 1 } }), 'HG2007 warn'],
  [log({ diskFreeBytes: gigabyte / 2 }), 'HG2008 fail'],
  [
    log({ brokers: { faults: [{ topic: 'headgate.control', text: 'a', next: 'b' }] } }),
    'HG2009 fail headgate.control',
  ],
  [log({ brokers: { faults: [], oldestBroker: 3.5 } }), 'HG2010 warn'],
  [log({ brokers: { faults: [], oldestBroker: 0 } }), 'HG2010 warn'],
  [log({ brokers: { faults: [], oldestBroker: 3.9, replicas: 1 } }), 'HG2011 warn'],
  [log({ brokers: { faults: [], oldestBroker: 4.1, replicas: 3 } }), ''],
  [topics({ failing: { seconds: 9, reason: 'refused', isReached: true } }), 'HG2012 fail headgate.status'],
  [
    topics({ skipped: 2, lastSkipped: { partition: 0, offset: 9, cause: 'compressed' } }),
    'HG2013 warn headgate.status',
  ],
  [
    log({ refused: [{ topic: 'headgate.usage', count: 3, first: 7, last: 12 }] }),
    'HG2016 fail headgate.usage',
  ],
  [plane({ silentSeconds: 60 }), 'HG3001 warn cp-2'],
  [plane({ isDiverged: true }), 'HG3002 fail cp-2'],
  [plane({ foldVersion: 1 }), 'HG3003 warn cp-2'],
  [plane({ sameLog: false }), 'HG3004 fail cp-2'],
  [plane({ fault: 'the fold halted' }), 'HG3005 fail cp-2'],
  [plane({ clockAheadSeconds: -3600 }), 'HG3006 warn cp-2'],
  [{ ...well, gateways: [] }, 'HG4001 warn'],
  [gateway({ state: 'STALE' }), 'HG4002 fail gw-1'],
  [gateway({ state: 'STALE', stalePolicy: 'serve' }), 'HG4003 fail gw-1'],
  [gateway({ state: 'LAGGING', lagEvents: 9 }), 'HG4004 warn gw-1'],
  [gateway({ state: 'DIVERGED' }), 'HG4005 fail gw-1'],
  [gateway({ fault: 'no trusted signer' }), 'HG4006 fail gw-1'],
  [gateway({ processes: 2 }), 'HG4007 fail gw-1'],
  [gateway({ foldVersion: 1 }), 'HG4008 warn gw-1'],
  [gateway({ freshSeconds: 30 }), 'HG4009 warn gw-1'],
  [{ ...well, probe: { gateway: 'gw-1', foreign: 'a', missing: 'b' } }, 'HG4010 fail gw-1'],
  [log({ writeFault: 'cannot write' }), 'HG2017 fail'],
  [gateway({ clockAheadSeconds: 31 }), 'HG4011 warn gw-1'],
  [gateway({ clockAheadSeconds: -3601 }), 'HG4011 fail gw-1'],
  [gateway({ isOutOfFiles: true }), 'HG4014 fail gw-1'],
  [gateway({ daysLeft: 5 }), 'HG4012 warn gw-1'],
  [gateway({ daysLeft: -1 }), 'HG4012 fail gw-1'],
  [gateway({ isMute: true }), 'HG4013 warn gw-1'],
  [node({ up: false, reason: 'connection refused' }), 'HG5001 fail n-1, HG6001 fail pool/m'],
  [node({ changesLastHour: 12 }), 'HG5002 warn n-1'],
  [node({ overstatedTo: ['gw-1'] }), 'HG5005 warn n-1'],
  [node({ withheld: true }), 'HG5006 warn n-1'],
  [node({ unansweredAt: ['gw-1'] }), 'HG5007 warn n-1'],
  [node({ oddForms: ['m: an unknown finish reason, repetition'] }), 'HG5008 warn n-1'],
  [node({ owner: 'cp-3' }), 'HG5003 fail n-1'],
  [node({ failedLoads: [{ model: 'm', reason: 'out of memory' }] }), 'HG5004 fail n-1'],
  [node({ models: [] }), 'HG6001 fail pool/m'],
  [models({ installs: [] }), 'HG6002 warn n-1/m'],
  [models({ tiers: [{ id: 'Team', models: ['m'] }], installs: [{ place: 'pool', model: 'm' }] }), ''],
  [models({ tiers: [{ id: 'Team', models: [] }] }), 'HG6003 warn m, HG6004 warn Team'],
  [models({ organisations: [{ id: 'acme', tier: null, activeKeys: 1 }] }), 'HG6005 warn acme'],
  [
    models({ keys: [{ id: 'key-1', organisation: 'acme', expiresInDays: 2, createdBy: 'ana' }] }),
    'HG6006 warn key-1',
  ],
  [
    models({ keys: [{ id: 'key-1', organisation: 'acme', expiresInDays: null, createdBy: 'bob' }] }),
    'HG6007 warn key-1',
  ],
  [models({ tiers: [{ id: 'Team', models: ['m', 'gone'] }] }), 'HG6008 warn Team'],
  [
    limits({
      fileFaults: [{ object: 'acme', text: 'a', differs: { day: '2026-11-21', counted: 3, rows: 2 } }],
    }),
    'HG7001 fail acme',
  ],
  [
    models({
      organisations: ['acme', 'elm'].map((id) => ({ id, tier: 'Team', activeKeys: 0 })),
    }),
    'HG7002 warn Team',
  ],
  [limits({ usageFaults: { lost: 2 } }), 'HG7003 fail lost'],
  [
    limits({ counterDifferences: [{ organisation: 'acme', period: '2026-11-01', counters: 9, rows: 2 }] }),
    'HG7005 warn acme',
  ],
  [limits({ overweight: [{ tier: 'Team', model: 'm', weight: 3, concurrency: 2 }] }), 'HG7006 warn Team/m'],
  [limits({ fileFaults: [{ object: 'request 7', text: 'a' }] }), 'HG7007 fail request 7'],
  [listener({ isLoopback: false, daysLeft: 5 }), 'HG8001 warn admin'],
  [listener({ isLoopback: false, daysLeft: -1 }), 'HG8001 fail admin'],
  [listener({ isLoopback: true, certificateFault: 'no key' }), 'HG8001 fail admin'],
  [listener({ isLoopback: false }), 'HG8002 warn admin'],
  [open({ stuck: 'it waits for requests' }), 'HG9001 warn 17'],
  [open({ openHours: 24 }), 'HG9001 warn 17'],
  [{ ...well, changes: { withdrawn: [{ id: '9', hoursAgo: 2, reason: 'a' }] } }, 'HG9002 warn 9'],
  [open({ halted: [{ gateway: 'gw-1', reason: 'the fold halted at commit 9' }] }), 'HG9003 fail gw-1'],
];

const found = (facts: DoctorFacts): string =>
  diagnose(facts)
    .checks.filter(({ level }) => level !== 'ok')
    .map(({ code, level, object }) => [code, level, object].filter(Boolean).join(' '))
    .join(', ');

test.each(faults)('a fault is found only by its own check: %#', (facts, expected) => {
  expect(found(facts)).toBe(expected);
});

test('a healthy fleet has no findings, and every check counts', () => {
  const { ok, warn, fail, checks } = diagnose(well);
  expect({ warn, fail }).toEqual({ warn: 0, fail: 0 });
  expect(ok).toBe(checks.length);
});

test.each(['operator', 'operator:p-abcdefghij', 'restore', 'ana'])(
  'no one is missing as the owner of a key made by %s',
  (createdBy) => {
    const keys = [{ id: 'key-1', organisation: 'acme', expiresInDays: 30, createdBy }];
    expect(found(models({ keys }))).toBe('');
  },
);

test('unknown facts are not checked', () => {
  expect(diagnose({}).checks).toEqual([]);
  expect(new Set(diagnose({ machine: well.machine }).checks.map(({ group }) => group))).toEqual(
    new Set(['machine']),
  );
});

test('unread and unreachable topics differ, and silence is judged only while own reports are read back', () => {
  const of = (facts: DoctorFacts, code: string) =>
    diagnose(facts).checks.find((check) => check.code === code);
  const failing = (isReached: boolean) => topics({ failing: { seconds: 9, reason: 'why', isReached } });
  expect(of(failing(true), 'HG2012')?.text).toBe('it could not be read for 9 s: why');
  expect(of(failing(false), 'HG2012')?.text).toBe('it could not be reached for 9 s: why');
  const missing = topics({
    failing: { seconds: 9, reason: '(UNKNOWN_TOPIC_OR_PARTITION)', isReached: true },
  });
  expect(of(missing, 'HG2012')?.next).toMatch(/^the topic is missing: running processes create it again/);
  const { gateways } = gateway({ state: 'STALE' });
  expect(of({ ...well, gateways }, 'HG4002')?.next).toContain('headgate gateway forget gw-1');
  const { controlPlanes } = plane({ silentSeconds: 60 });
  const { nodes } = node({ owner: 'cp-2' });
  const judged = { gateways, controlPlanes, nodes };
  expect(found({ ...well, ...judged })).toMatch(/HG3001.*HG4002.*HG5003/);
  expect(found({ ...log({ hasReports: false }), ...judged })).toBe('');
});

const stale = (more: object): DoctorFacts => gateway({ state: 'STALE', silentSeconds: 57, ...more });
/** Each row contains facts about a gateway, the finding's code, and patterns for the finding's text and its next step. */
const said: readonly (readonly [DoctorFacts, string, RegExp, RegExp])[] = [
  [stale({}), 'HG4002', /not reported for 57 s$/, /ended, start it;.* network;.*forget gw-1/],
  [stale({ silentSeconds: 1 }), 'HG4002', /since this replica started$/, /if it has ended, start it/],
  [
    stale({ stalePolicy: 'serve' }),
    'HG4003',
    /57 s; if it runs, it accepts/,
    /ended, start it;.*forget gw-1/,
  ],
  [gateway({ freshSeconds: 30 }), 'HG4009', /30 s old; at 45 s it stops accepting keys$/, /reaches its log/],
  [gateway({ freshSeconds: 66 }), 'HG4009', /66 s old; it accepts no keys$/, /reaches its log/],
  [
    gateway({ freshSeconds: 66, stalePolicy: 'serve' }),
    'HG4009',
    /66 s old; it continues to serve .* does not know of later revocations$/,
    /reaches its log/,
  ],
  [gateway({ state: 'LAGGING', lagEvents: 1 }), 'HG4004', /^it is 1 commit behind$/, /^wait/],
  [open({ stuck: 'it waits for 50 requests' }), 'HG9001', /^it waits for 50/, /change show 17, then/],
  [open({ openHours: 30.5 }), 'HG9001', /^it has been open for 30 h$/, /advance or withdraw$/],
  [gateway({ sameLog: false }), 'HG4006', /another log/, /HEADGATE_LOG/],
  [
    gateway({ fault: '/log/headgate.control was removed while it was in use' }),
    'HG4006',
    /was removed/,
    /^put the log back/,
  ],
  [
    gateway({ fault: 'the log ends before commit 7, which was folded from it' }),
    'HG4006',
    /ends before/,
    /^put the log/,
  ],
  [
    gateway({ fault: 'this is log b, but what was folded came from log a' }),
    'HG4006',
    /log b/,
    /HEADGATE_LOG/,
  ],
  [
    gateway({ fault: 'the fold halted at commit 9: an unknown event' }),
    'HG4006',
    /commit 9: an unknown/,
    /^upgrade it/,
  ],
  [
    gateway({ fault: 'log a is refused: no signer of --trust-signer signed it' }),
    'HG4006',
    /is refused/,
    /signers that/,
  ],
  [
    gateway({ fault: 'cannot write /data/state.db (SQLITE_FULL)' }),
    'HG4006',
    /SQLITE_FULL/,
    /^free some space .* data folder/,
  ],
];

test.each(said)('a finding says what is wrong and what to do: %#', (facts, code, text, next) => {
  const check = diagnose(facts).checks.find((each) => each.code === code);
  expect(check?.text).toMatch(text);
  expect(check?.next).toMatch(next);
});

test('a gateway that lags by no commits is not told to catch up', () => {
  const fault = '/log/headgate.control was removed while it was in use';
  expect(found(gateway({ state: 'LAGGING', lagEvents: 0, fault }))).toBe('HG4006 fail gw-1');
});

test('brokers and ports that were not examined are not reported as healthy', () => {
  const brokerCodes = ['HG2009', 'HG2010', 'HG2011'];
  const unchecked = (facts: DoctorFacts): string[] => {
    const checked = new Set(diagnose(facts).checks.map(({ code }) => code));
    return ['HG1008', ...brokerCodes].filter((code) => !checked.has(code));
  };
  expect(unchecked(well)).toEqual([]);
  expect(unchecked(machine({ takenPorts: undefined }))).toEqual(['HG1008']);
  expect(unchecked(log({ brokers: undefined }))).toEqual(brokerCodes);
  expect(unchecked(log({ brokers: { faults: [] } }))).toEqual(['HG2010', 'HG2011']);
});

test('each check can fail, and each has a page under its code', () => {
  const codes = diagnose(well).checks.map(({ code }) => code);
  expect(codes).toEqual([...new Set(codes)].sort());
  expect(codes.filter((code) => !faults.some(([, expected]) => expected.includes(code)))).toEqual([]);
  const folder = new URL('../../docs/errors/', import.meta.url);
  const pages = readdirSync(folder).filter((name) => name.startsWith('HG'));
  expect(pages.sort()).toEqual(codes.map((code) => `${code}.md`));
  for (const page of pages) {
    const text = readFileSync(new URL(page, folder), 'utf8');
    expect(text.split('\n')[0]).toContain(`# ${page.slice(0, 6)}: `);
    for (const part of ['## Cause', '## What to do'])
      expect([page, text.includes(part)]).toEqual([page, true]);
  }
});

test('many findings of one kind become one with a count and examples; a few are listed singly', () => {
  const nodes = (count: number, change: object): DoctorFacts => ({
    ...well,
    nodes: Array.from({ length: count }, (_, n) => ({
      ...node(change).nodes?.[0],
      id: `n-${n}`,
    })) as Facts['nodes'],
  });
  const own = (facts: DoctorFacts, code: string) =>
    diagnose(facts, ['nodes']).checks.filter((check) => check.code === code);
  const few = own(nodes(3, { owner: 'cp-9' }), 'HG5003');
  expect(few.map(({ object, findings }) => [object, findings])).toEqual([
    ['n-0', undefined],
    ['n-1', undefined],
    ['n-2', undefined],
  ]);
  const many = nodes(1000, { owner: 'cp-9', overstatedTo: ['gw-1'] });
  const [one, ...rest] = own(many, 'HG5003');
  expect(rest).toEqual([]);
  expect(one).toMatchObject({ object: 'n-0', level: 'fail', findings: 1000 });
  expect(one?.examples?.map(({ object }) => object)).toEqual(['n-1', 'n-2', 'n-3', 'n-4', 'n-5']);
  expect(one?.examples?.[0]).toEqual({ object: 'n-1', text: one?.text, next: expect.any(String) });
  expect(diagnose(many, ['nodes'])).toMatchObject({ fail: 1000, warn: 1000 });
  const listeners = Array.from({ length: 50 }, (_, n) => ({
    name: `l-${n}`,
    isLoopback: true,
    daysLeft: n % 2 ? 5 : -1,
  }));
  const levels = diagnose({ ...well, listeners }, ['console']).checks.filter(({ code }) => code === 'HG8001');
  expect(levels.map(({ level, findings }) => [level, findings])).toEqual([
    ['fail', 25],
    ['warn', 25],
  ]);
});

test('the findings of the largest fleet fit in a bounded text', () => {
  const ids = Array.from({ length: 10_000 }, (_, n) => `id-${n}`);
  const { checks, warn, fail } = diagnose({
    ...well,
    nodes: ids.slice(0, 1000).map((id) => ({ ...well.nodes[0], id, up: false }) as Facts['nodes'][number]),
    models: {
      ...well.models,
      installs: ids.map((id) => ({ place: `stack:${id}`, model: 'm' })),
      organisations: ids.map((id) => ({ id, tier: null, activeKeys: 1 })),
      keys: ids.map((id) => ({ id, organisation: id, expiresInDays: 1, createdBy: 'bob' })),
    },
  });
  expect(warn + fail).toBe(1000 + 10_000 + 10_000 + 10_000 + 10_000);
  expect(JSON.stringify(checks).length).toBeLessThan(20_000);
});
