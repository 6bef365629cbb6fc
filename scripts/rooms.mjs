/**
 * Checks the imports of all sources, types included. Each room (a folder) imports only the rooms that its entry names, in the order
 * of the two roads (ARCHITECTURE.md), and never in a circle. Only its owner imports a driver. The product does not import tests.
 * Every export is imported somewhere, no two exported types of the product share a name, and only one module reads the wall clock.
 * Imports are found by their text, because TypeScript 7 has no interface for tools; the formatter keeps that text uniform.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

const plumbing = ['schemas', 'shared/runtime', 'shared/ids'];
const logAndSnapshot = [...plumbing, 'shared/log/core', 'shared/snapshot'];
const folded = [...logAndSnapshot, 'shared/usage', 'shared/status', 'shared/limits'];
/** What a request may know: no log, no driver, no server. */
const onTheRequestRoad = [
  'schemas',
  'shared/runtime',
  'shared/engines',
  'shared/decision',
  'shared/snapshot',
  'shared/limits',
];

/** Entries of rooms of which each may import the ones before it. */
function inOrder(base, folder, names) {
  return Object.fromEntries(
    names.map((name, index) => [
      `${folder}/${name}`,
      [...base, ...names.slice(0, index).map((earlier) => `${folder}/${earlier}`)],
    ]),
  );
}

const dataPlane = inOrder(onTheRequestRoad, 'data-plane', [
  'core',
  'http1',
  'http',
  'shape',
  'dialect',
  'answer',
  'surfaces/chat',
  'surfaces/embeddings',
  'surfaces/messages',
  'surfaces/rerank',
  'surfaces/responses',
  'surfaces',
  'body-worker',
  'upstream',
  'forward',
]);
const controlPlane = inOrder(folded, 'control-plane', [
  'core',
  'state',
  'commands',
  'explain',
  'history',
  'command-log',
  'gateways',
  'nodes',
  'sessions',
  'server',
  'console',
]);

/** Each room, and all other rooms that it may import. */
const rooms = {
  schemas: [],
  'shared/runtime': ['schemas'],
  'shared/ids': ['schemas', 'shared/runtime'],
  'shared/log/core': ['schemas', 'shared/runtime'],
  'shared/log/embedded': ['schemas', 'shared/runtime', 'shared/log/core'],
  'shared/log/kafka': ['schemas', 'shared/runtime', 'shared/log/core'],
  'shared/log': ['schemas', 'shared/runtime', 'shared/log/core', 'shared/log/embedded', 'shared/log/kafka'],
  'shared/snapshot': [...plumbing, 'shared/log/core'],
  'shared/usage': [...logAndSnapshot, 'shared/log'],
  'shared/status': [...logAndSnapshot, 'shared/log'],
  'shared/limits': ['schemas', 'shared/runtime', 'shared/log/core', 'shared/log'],
  'shared/engines': plumbing,
  'shared/doctor': [],
  'shared/decision': [...plumbing, 'shared/snapshot'],
  ...dataPlane,
  'data-plane/segments': ['schemas', 'shared/runtime'],
  'data-plane/usage': [...folded, 'shared/log', 'data-plane/segments'],
  'data-plane/snapshot': [...folded, 'shared/log'],
  'data-plane/limits': ['schemas', 'shared/runtime', 'shared/limits', 'shared/log'],
  'data-plane/request': [...onTheRequestRoad, ...Object.keys(dataPlane), 'data-plane/usage'],
  'data-plane/server': [...onTheRequestRoad, 'data-plane/request'],
  'data-plane/play': [...onTheRequestRoad, 'data-plane/core', 'data-plane/http', 'data-plane/request'],
  'data-plane/records': [
    ...onTheRequestRoad,
    'data-plane/segments',
    'data-plane/http',
    'data-plane/request',
    'shared/status',
  ],
  'data-plane/tracing': [...onTheRequestRoad, 'data-plane/core', 'data-plane/records', 'data-plane/request'],
  'data-plane': [
    ...onTheRequestRoad,
    ...Object.keys(dataPlane),
    'data-plane/usage',
    'data-plane/snapshot',
    'data-plane/limits',
    'data-plane/request',
    'data-plane/server',
    'data-plane/play',
    'data-plane/records',
    'data-plane/tracing',
    'shared/log/core',
    'shared/log',
  ],
  ...controlPlane,
  'control-plane/explain': [...controlPlane['control-plane/explain'], 'shared/decision'],
  'control-plane/history': [...controlPlane['control-plane/history'], 'shared/log', 'shared/decision'],
  'control-plane/gateways': [...controlPlane['control-plane/gateways'], 'shared/log'],
  'control-plane/nodes': [...controlPlane['control-plane/nodes'], 'shared/engines'],
  'control-plane/server': [...controlPlane['control-plane/server'], 'shared/doctor', 'shared/decision'],
  'control-plane': [...folded, ...Object.keys(controlPlane), 'shared/log'],
  agent: [...plumbing, 'shared/engines'],
  'admin-client': ['schemas', 'shared/runtime'],
  'cli/terminal': [...plumbing, 'admin-client'],
  'cli/commands': [
    ...logAndSnapshot,
    'shared/status',
    'shared/doctor',
    'shared/decision',
    'shared/log',
    'shared/log/embedded',
    'shared/limits',
    'shared/usage',
    'admin-client',
    'cli/terminal',
  ],
  'cli/processes': [
    'schemas',
    'shared/runtime',
    'cli/terminal',
    'agent',
    'dev/simulator',
    'control-plane',
    'data-plane',
    'data-plane/forward',
  ],
  // For browsers: only types of the other rooms, which leave nothing in the built files.
  'console/lib': ['schemas'],
  'console/ui': ['schemas', 'console/lib'],
  'console/pages': ['schemas', 'console/lib', 'console/ui'],
  'console/play': ['schemas', 'console/lib'],
  console: ['schemas', 'console/lib', 'console/ui', 'console/pages'],
  'dev/simulator': ['schemas', 'shared/runtime'],
  dev: [
    'schemas',
    'shared/runtime',
    'shared/engines',
    'admin-client',
    'cli/terminal',
    'cli/processes',
    'agent',
    'dev/simulator',
    'control-plane',
  ],
  cli: ['shared/runtime', 'cli/terminal', 'cli/commands', 'cli/processes', 'dev'],
};

/** The only room or file that may import a driver. */
const drivers = [
  [/^better-sqlite3/, /^shared\/runtime\/sqlite\.ts/],
  [/^kafkajs/, /^shared\/log\/kafka\/client\.ts/],
  [/^@?preact/, /^console\//],
  [/^@opentelemetry/, /^data-plane\/tracing\//],
  [/^altcha-lib/, /^console\/play\//],
  [/^markdown-it/, /^console\/play\/markdown/],
  [/^openid-client/, /^control-plane\/console\//],
  [/^@?fastify/, /^control-plane\/(server|console)\//],
];

const product = new Set(Object.keys(rooms).map((room) => room.split('/')[0]));

function sourcesIn(folder) {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return entry.name === 'node_modules' ? [] : sourcesIn(path);
    return /\.(tsx?|mjs)$/.test(entry.name) ? [path] : [];
  });
}

const statement = /(?:^|\n)(?:import|export)\s+(?:type\s+)?([\w*{][^'";]*?)?(?:\s*from\s+)?'([^']+)'/g;
/** `const { names } = await import('…')`, `(await import('…')).name` or the type `import('…').Name`. */
const dynamic = /(?:\{([^{}]*)\} = \(?await )?\bimport\(\s*'([^']+)'\s*\)\)?(?:\.(\w+))?/g;
const workerFile = /new URL\(\s*'(\.[^']+)'/g;

/** The first word of each: what is exported, whatever it is called where it is imported. */
function namesIn(list) {
  return list.split(',').flatMap((name) => /^\s*(?:type\s+)?(\w+|\*)/.exec(name)?.[1] ?? []);
}

/** `names`: what is imported by name; '*' where all of it is. */
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

const files = [...product, 'test', 'bench', 'scripts'].filter(existsSync).flatMap(sourcesIn);
const imports = new Map(files.map((path) => [path, importsOf(path)]));
const faults = [];
const isTest = (path) => /\.test\.ts$/.test(path) || !product.has(path.split('/')[0]);

function checkRoom(path, { from, to }) {
  const room = dirname(path);
  const allowed = rooms[room];
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

/** Circles of the graph, each as the list of its members; found once each. */
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
    faults.push(`${path}: the folder has no entry in the table of rooms (scripts/rooms.mjs)`);
  for (const one of list) {
    checkRoom(path, one);
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
    // A type in the signature of another export is part of the interface.
    const isSignature = /interface|type/.test(kind) && text.split(new RegExp(`\\b${name}\\b`)).length > 2;
    if (!names.has(name) && !isSignature)
      faults.push(`${path}: nothing imports ${name}, so it needs no export`);
  }
}

/** One name has one meaning, so a reader who searches for a type finds one declaration. */
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

/** Browser pages and the simulator may read the wall clock, because they do not compare it with times of other machines. */
const hasOwnClock = /^(?:console|dev)\//;
for (const path of files) {
  if (isTest(path) || hasOwnClock.test(path) || path === 'shared/runtime/clock.ts') continue;
  if (/\bDate\.now\b|\bnew Date\b(?:\(\)|(?!\())/.test(readFileSync(path, 'utf8')))
    faults.push(`${path}: only shared/runtime/clock.ts may read the wall clock`);
}

for (const fault of faults) process.stderr.write(`${fault}\n`);
process.stdout.write(
  `rooms: ${files.length} files, ${Object.keys(rooms).length} rooms, ${faults.length} faults\n`,
);
process.exit(faults.length === 0 ? 0 : 1);
