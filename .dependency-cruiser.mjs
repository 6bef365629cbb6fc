/**
 * Which room may import which: a room is a folder, and its table entry names all rooms that it may import, types included.
 * The order is that of the two roads (ARCHITECTURE.md), so no room imports one that imports it.
 */
const plumbing = ['schemas', 'shared/runtime', 'shared/ids'];
const logAndSnapshot = [...plumbing, 'shared/log/core', 'shared/snapshot'];
const folded = [...logAndSnapshot, 'shared/usage', 'shared/status'];
/** What a request may know: no log, no driver, no server. */
const onTheWay = ['schemas', 'shared/runtime', 'shared/engines', 'shared/decision', 'shared/snapshot'];

/** Builds the entries of rooms of which each may import the ones before it. */
function inOrder(base, folder, names) {
  return Object.fromEntries(
    names.map((name, index) => [
      `${folder}/${name}`,
      [...base, ...names.slice(0, index).map((earlier) => `${folder}/${earlier}`)],
    ]),
  );
}

const dataPlane = inOrder(onTheWay, 'data-plane', [
  'core',
  'shape',
  'dialect',
  'answer',
  'body-worker',
  'upstream',
  'forward',
]);
const controlPlane = inOrder(folded, 'control-plane', [
  'core',
  'state',
  'commands',
  'command-log',
  'gateways',
  'nodes',
  'server',
]);

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
  'shared/engines': plumbing,
  'shared/decision': [...plumbing, 'shared/snapshot'],
  ...dataPlane,
  'data-plane/usage': folded,
  'data-plane/snapshot': [...folded, 'shared/log'],
  'data-plane/request': [...onTheWay, ...Object.keys(dataPlane), 'data-plane/usage'],
  'data-plane/server': [...onTheWay, 'data-plane/core', 'data-plane/request'],
  'data-plane': [
    ...onTheWay,
    ...Object.keys(dataPlane),
    ...['data-plane/usage', 'data-plane/snapshot', 'data-plane/request', 'data-plane/server'],
    ...['shared/log/core', 'shared/log'],
  ],
  ...controlPlane,
  'control-plane/nodes': [...controlPlane['control-plane/nodes'], 'shared/engines'],
  'control-plane': [...folded, ...Object.keys(controlPlane), 'shared/log'],
  agent: [...plumbing, 'shared/engines', 'shared/snapshot'],
  'cli/terminal': plumbing,
  'cli/commands': [...logAndSnapshot, 'shared/log', 'shared/log/embedded', 'cli/terminal'],
  'cli/processes': [
    ...['schemas', 'shared/runtime', 'cli/terminal', 'agent', 'dev/simulator'],
    ...['control-plane', 'data-plane', 'data-plane/forward'],
  ],
  'dev/simulator': ['schemas', 'shared/runtime'],
  dev: [
    ...['schemas', 'shared/runtime', 'shared/engines', 'cli/terminal', 'cli/processes'],
    ...['agent', 'dev/simulator', 'control-plane'],
  ],
  cli: ['shared/runtime', 'cli/terminal', 'cli/commands', 'cli/processes', 'dev'],
};

const inRoom = (room) => `^${room}/[^/]+$`;
const product = `^(${[...new Set(Object.keys(rooms).map((room) => room.split('/')[0]))].join('|')})/`;

const roomRules = Object.entries(rooms).map(([room, allowed]) => ({
  name: `rooms: ${room}`,
  comment: `${room}/ may import ${allowed.join(', ') || 'no other room'}.`,
  severity: 'error',
  from: { path: inRoom(room) },
  to: { path: product, pathNot: [room, ...allowed].map(inRoom) },
}));

/** The only rooms or files that may import a driver. */
const drivers = {
  'better-sqlite3(-node-api)?': '^shared/runtime/sqlite\\.ts$',
  kafkajs: '^shared/log/kafka/',
  '(fastify|@fastify/[^/]+)': '^control-plane/server/',
};

export default {
  forbidden: [
    ...roomRules,
    ...Object.entries(drivers).map(([driver, owner]) => ({
      name: `drivers: ${driver}`,
      comment: `Only ${owner} imports ${driver}.`,
      severity: 'error',
      from: { path: product, pathNot: owner },
      to: { path: `(^|node_modules/)${driver}(/|$)` },
    })),
    {
      name: 'every folder is a room',
      comment: 'A new folder needs a line in the table of rooms.',
      severity: 'error',
      from: { path: product, pathNot: Object.keys(rooms).map(inRoom) },
      to: {},
    },
    {
      name: 'no circles between files',
      severity: 'error',
      from: {},
      to: { circular: true },
    },
    {
      name: 'no circles between rooms',
      severity: 'error',
      scope: 'folder',
      from: {},
      to: { circular: true },
    },
    {
      name: 'no unresolvable imports',
      severity: 'error',
      from: {},
      to: { couldNotResolve: true },
    },
    {
      name: 'no test code in the product',
      severity: 'error',
      from: { path: product, pathNot: '\\.test\\.ts$' },
      to: { path: '^(test|bench)/|\\.test\\.ts$' },
    },
  ],
  options: {
    // @swc/core, because TypeScript 7 has no interface for tools.
    parser: 'swc',
    tsPreCompilationDeps: true,
    doNotFollow: { path: 'node_modules' },
    exclude: { path: '\\.test\\.ts$' },
  },
};
