/**
 * Checks the size of each room (a folder) and the imports of all sources, including imports of types. The entry of a room
 * states how many lines it may have and which rooms it may import. Imports follow the two roads (ARCHITECTURE.md), without
 * cycles. Each driver is imported only by its owner, the product never imports tests, and every export is imported somewhere.
 * No two exported types of the product share a name, and only one module reads the wall clock.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

const schemas = ['schemas', 'schemas/events', 'schemas/api', 'schemas/records', 'schemas/admin'];
const plumbing = [...schemas, 'shared/runtime', 'shared/ids'];
const log = [...plumbing, 'shared/log/core', 'shared/log'];
/** Rooms that decisions may import. Decisions must not depend on the log, drivers or servers. */
const decision = [...plumbing, 'shared/engines', 'shared/snapshot', 'shared/decision'];
const folded = [...log, 'shared/snapshot', 'shared/usage', 'shared/status', 'shared/limits'];

/** Creates the entries of a list of rooms in which each room may import the ones before it. */
function inOrder(base, rows) {
  const earlier = [];
  return Object.fromEntries(
    rows.map(([room, linesMax, more = []]) => {
      const entry = [room, [linesMax, [...base, ...earlier, ...more]]];
      earlier.push(room);
      return entry;
    }),
  );
}

/** Rooms that a request passes through on its way to a node and back, in this order. */
const requestRoad = inOrder(decision, [
  ['data-plane/surfaces/common', 2800],
  ['data-plane/http', 2300],
  ['data-plane/surfaces/chat', 450],
  ['data-plane/surfaces/embeddings', 150],
  ['data-plane/surfaces/messages', 750],
  ['data-plane/surfaces/rerank', 150],
  ['data-plane/surfaces/responses', 1300],
  ['data-plane/surfaces', 200],
  ['data-plane/body-worker', 550],
  ['data-plane/nodes', 2900],
]);

const controlPlane = inOrder(folded, [
  ['control-plane/core', 200],
  ['control-plane/state', 1450],
  ['control-plane/commands', 3450],
  ['control-plane/explain', 2050, ['shared/decision']],
  ['control-plane/history', 2000, ['shared/decision']],
  ['control-plane/usage', 2300],
  ['control-plane/gateways', 2600],
  ['control-plane/nodes', 1950, ['shared/engines']],
  ['control-plane/doctor', 1300],
  ['control-plane/sessions', 350],
  ['control-plane/admin-api', 4550, ['shared/decision']],
  ['control-plane/console-server', 1200],
  ['control-plane', 500],
]);

/** Entry of each room: the maximum number of source lines without tests, and the other rooms that it may import. */
const rooms = {
  ...inOrder(
    [],
    [
      ['schemas', 350],
      ['schemas/events', 1450],
      ['schemas/api', 1100],
      ['schemas/records', 1850],
      ['schemas/admin', 2050],
    ],
  ),
  'shared/runtime': [4100, schemas],
  'shared/ids': [100, schemas],
  'shared/log/core': [1000, plumbing],
  'shared/log/embedded': [800, [...plumbing, 'shared/log/core']],
  'shared/log/kafka': [2500, [...plumbing, 'shared/log/core']],
  'shared/log': [500, [...plumbing, 'shared/log/core', 'shared/log/embedded', 'shared/log/kafka']],
  'shared/snapshot': [4150, [...plumbing, 'shared/log/core']],
  'shared/usage': [100, log],
  'shared/status': [400, log],
  'shared/limits': [1200, log],
  'shared/engines': [900, plumbing],
  'shared/decision': [2200, [...plumbing, 'shared/snapshot']],
  ...requestRoad,
  'data-plane/limits': [1550, [...log, 'shared/limits']],
  'data-plane/usage': [3400, [...folded, 'data-plane/limits']],
  'data-plane/snapshot': [1250, folded],
  'data-plane/request': [
    1400,
    [...decision, ...Object.keys(requestRoad), 'shared/limits', 'data-plane/usage'],
  ],
  'data-plane/playground': [
    900,
    [...decision, 'data-plane/surfaces/common', 'data-plane/http', 'data-plane/request'],
  ],
  'data-plane/records': [
    1250,
    [...decision, 'shared/status', 'data-plane/http', 'data-plane/request', 'data-plane/usage'],
  ],
  'data-plane/telemetry': [
    1150,
    [...decision, 'data-plane/surfaces/common', 'data-plane/request', 'data-plane/records'],
  ],
  'data-plane': [
    500,
    [
      ...folded,
      ...decision,
      ...Object.keys(requestRoad),
      'data-plane/limits',
      'data-plane/usage',
      'data-plane/snapshot',
      'data-plane/request',
      'data-plane/playground',
      'data-plane/records',
      'data-plane/telemetry',
    ],
  ],
  ...controlPlane,
  agent: [1150, [...plumbing, 'shared/engines']],
  'cli/admin-client': [600, plumbing],
  'cli/terminal': [1700, [...plumbing, 'cli/admin-client']],
  'cli/commands': [
    5900,
    [
      ...folded,
      'shared/log/embedded',
      'shared/log/kafka',
      'control-plane/doctor',
      'control-plane/explain',
      'control-plane/gateways',
      'control-plane/usage',
      'cli/admin-client',
      'cli/terminal',
    ],
  ],
  'cli/processes': [
    1050,
    [
      ...plumbing,
      'cli/terminal',
      'agent',
      'control-plane',
      'data-plane',
      'data-plane/nodes',
      'tools/simulator',
    ],
  ],
  cli: [300, ['shared/runtime', 'cli/terminal', 'cli/commands', 'cli/processes', 'tools/dev']],
  // Besides each other, the browser rooms may import only the schemas, so that nothing else is sent to browsers.
  ...inOrder(schemas, [
    ['console/lib', 1850],
    ['console/ui', 2250],
    ['console/pages', 5150],
    ['console', 300],
  ]),
  'console/play': [1300, [...schemas, 'console/lib']],
  'tools/simulator': [1950, plumbing],
  'tools/dev': [
    1050,
    [
      ...plumbing,
      'shared/engines',
      'agent',
      'cli/admin-client',
      'cli/processes',
      'cli/terminal',
      'control-plane',
      'tools/simulator',
    ],
  ],
};

/** Folders that are not part of the product. Their size is limited, but they may import anything. */
const workshop = {
  'tools/bench': 1250,
  'tools/bench/support': 650,
  'tools/scripts': 1350,
};

/** Drivers, each with the only room or file that may import it. */
const drivers = [
  [/^better-sqlite3/, /^shared\/runtime\/sqlite\.ts/],
  [/^kafkajs/, /^shared\/log\/kafka\/client\.ts/],
  [/^@?preact/, /^console\//],
  [/^@opentelemetry/, /^data-plane\/telemetry\//],
  [/^altcha-lib/, /^console\/play\//],
  [/^markdown-it/, /^console\/play\/markdown/],
  [/^openid-client/, /^control-plane\/console-server\//],
  [/^@?fastify/, /^control-plane\/(admin-api|console-server)\//],
];

/** Files of a room that only the listed files of other rooms may import. */
const doors = [
  [
    /^data-plane\/http\/(?:message-\w+|head-readers|field-reader|characters|header-object|faults)\.ts$/,
    /^data-plane\/(?:http\/|nodes\/node-(?:connection|call)\.ts)/,
  ],
];

const product = new Set(Object.keys(rooms).map((room) => room.split('/')[0]));
const isOfProduct = (path) => product.has(path.split('/')[0]) && workshop[dirname(path)] === undefined;

function sourcesIn(folder) {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return entry.name === 'node_modules' ? [] : sourcesIn(path);
    return /\.(tsx?|mjs)$/.test(entry.name) ? [path] : [];
  });
}

const statement = /(?:^|\n)(?:import|export)\s+(?:type\s+)?([\w*{][^'";]*?)?(?:\s*from\s+)?'([^']+)'/g;
/** Matches `const { names } = await import('…')`, `(await import('…')).name` and the type `import('…').Name`. */
const dynamic = /(?:\{([^{}]*)\} = \(?await )?\bimport\(\s*'([^']+)'\s*\)\)?(?:\.(\w+))?/g;
const workerFile = /new URL\(\s*'(\.[^']+)'/g;

/** Returns the names in an import or export list, without their local aliases. */
function namesIn(list) {
  return list.split(',').flatMap((name) => /^\s*(?:type\s+)?(\w+|\*)/.exec(name)?.[1] ?? []);
}

/** Returns the imports of a file. `names` contains the imported names, or '*' for a whole module. */
function importsOf(path) {
  const text = readFileSync(path, 'utf8');
  const found = [];
  for (const [, names = '', from] of text.matchAll(statement))
    found.push({ from, names: namesIn(/\{([^}]*)\}/.exec(names)?.[1] ?? '*') });
  for (const [, names, from, name = '*'] of text.matchAll(dynamic))
    found.push({ from, names: namesIn(names ?? name) });
  for (const [, from] of text.matchAll(workerFile)) found.push({ from, names: [] });
  return found.map(({ from, names }) => ({
    names,
    from,
    to: from.startsWith('.') ? join(dirname(path), from) : undefined,
  }));
}

const exported =
  /(?:^|\n)export\s+(?:declare\s+|abstract\s+|async\s+)*(const|let|function\*?|class|interface|type|enum)\s+(\w+)/g;

const files = [...product, 'test'].flatMap(sourcesIn);
const imports = new Map(files.map((path) => [path, importsOf(path)]));
const faults = [];
const isTest = (path) => /\.test\.ts$/.test(path) || !isOfProduct(path);

function checkRoom(path, { from, to }) {
  const room = dirname(path);
  const [, allowed] = rooms[room] ?? [];
  if (allowed === undefined) return;
  if (to === undefined) {
    for (const [driver, owner] of drivers)
      if (driver.test(from) && !owner.test(path)) faults.push(`${path}: only ${owner} may import ${from}`);
    return;
  }
  if (!/\.(tsx?|mjs)$/.test(to)) return;
  const target = dirname(to);
  if (isTest(to)) faults.push(`${path}: imports test code, ${to}`);
  else if (product.has(to.split('/')[0]) && target !== room && !allowed.includes(target))
    faults.push(`${path}: ${room}/ may not import ${target}/ (${to})`);
}

function checkDoors(path, { to }) {
  for (const [inside, users] of doors)
    if (inside.test(to ?? '') && !users.test(path)) faults.push(`${path}: only ${users} may import ${to}`);
}
/** Finds each import cycle once. A cycle is the list of its members. */
function circles(edges) {
  const state = new Map();
  const found = [];
  const visit = (node, way) => {
    if (state.get(node) === 'done') return;
    if (state.get(node) === 'open') {
      found.push([...way.slice(way.indexOf(node)), node]);
      return;
    }
    state.set(node, 'open');
    for (const next of edges.get(node) ?? []) visit(next, [...way, node]);
    state.set(node, 'done');
  };
  for (const node of edges.keys()) visit(node, []);
  return found;
}

const fileEdges = new Map();
const roomEdges = new Map();
for (const [path, list] of imports) {
  if (isTest(path)) continue;
  if (rooms[dirname(path)] === undefined)
    faults.push(`${path}: the folder has no entry in the table of rooms (tools/scripts/rooms.mjs)`);
  for (const one of list) {
    checkRoom(path, one);
    checkDoors(path, one);
    if (one.to === undefined || isTest(one.to) || one.names.length === 0) continue;
    fileEdges.set(path, (fileEdges.get(path) ?? new Set()).add(one.to));
    const [room, target] = [dirname(path), dirname(one.to)];
    if (room !== target) roomEdges.set(room, (roomEdges.get(room) ?? new Set()).add(target));
  }
}
for (const circle of circles(fileEdges)) faults.push(`a circle of files: ${circle.join(' → ')}`);
for (const circle of circles(roomEdges)) faults.push(`a circle of rooms: ${circle.join(' → ')}`);

const used = new Map();
for (const list of imports.values())
  for (const { to, names } of list)
    if (to !== undefined) for (const name of names) used.set(to, (used.get(to) ?? new Set()).add(name));
for (const path of files) {
  if (!/\.tsx?$/.test(path)) continue;
  const names = used.get(path) ?? new Set();
  if (names.has('*')) continue;
  const text = readFileSync(path, 'utf8');
  for (const [, kind, name] of text.matchAll(exported)) {
    // A type in the signature of another export counts as imported, because it is part of that interface.
    const isSignature = /interface|type/.test(kind) && text.split(new RegExp(`\\b${name}\\b`)).length > 2;
    if (!names.has(name) && !isSignature)
      faults.push(`${path}: nothing imports ${name}, so it needs no export`);
  }
}

/** Each type name must have one meaning, so that a search for the name finds a single declaration. */
const typeOwners = new Map();
for (const path of files) {
  if (isTest(path) || !/\.tsx?$/.test(path)) continue;
  for (const [, kind, name] of readFileSync(path, 'utf8').matchAll(exported)) {
    if (!/interface|type|class|enum/.test(kind)) continue;
    const owner = typeOwners.get(name);
    if (owner === undefined) typeOwners.set(name, path);
    else if (owner !== path) faults.push(`${path}: ${owner} exports a type ${name} too`);
  }
}

/** Browser pages and the simulator may read the wall clock, because they do not compare it with other machines' times. */
const hasOwnClock = /^(?:console|tools\/dev|tools\/simulator)\//;
for (const path of files) {
  if (isTest(path) || hasOwnClock.test(path) || path === 'shared/runtime/clock.ts') continue;
  if (/\bDate\.now\b|\bnew Date\b(?:\(\)|(?!\())/.test(readFileSync(path, 'utf8')))
    faults.push(`${path}: only shared/runtime/clock.ts may read the wall clock`);
}

const budgets = {
  ...Object.fromEntries(Object.entries(rooms).map(([room, [linesMax]]) => [room, linesMax])),
  ...workshop,
};
const linesOf = {};
for (const path of files)
  if (budgets[dirname(path)] !== undefined && !/\.test\.ts$/.test(path))
    linesOf[dirname(path)] =
      (linesOf[dirname(path)] ?? 0) + readFileSync(path, 'utf8').split('\n').length - 1;
for (const [room, linesMax] of Object.entries(budgets)) {
  const lines = linesOf[room] ?? 0;
  process.stdout.write(
    `${room.padEnd(28)} ${String(lines).padStart(6)} of ${String(linesMax).padStart(6)} lines\n`,
  );
  if (lines > linesMax)
    faults.push(
      `${room}/ has ${lines} lines, and its budget is ${linesMax}: take lines out, or raise the budget and say why`,
    );
}

for (const fault of faults) process.stderr.write(`${fault}\n`);
process.stdout.write(
  `rooms: ${files.length} files, ${Object.keys(rooms).length} rooms, ${faults.length} faults\n`,
);
process.exit(faults.length === 0 ? 0 : 1);
