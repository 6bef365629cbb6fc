/**
 * A real Apache Kafka in KRaft mode for tests: one node or three, on free loopback ports, with data in a temporary folder.
 * Nodes can be killed, frozen and restarted on the same data. They are ended by process id. The jars are fetched once from
 * Maven into .cache/kafka, together with a class archive that makes starts three times as fast, so later runs need no
 * network. Needs Java 17 and, for the first run, Maven.
 */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { promisify } from 'node:util';
import { createDial } from '../../shared/log/kafka/client.ts';
import type { KafkaSettings } from '../../shared/log/kafka/settings.ts';
import { Door } from './door.ts';
import { freeze } from './freeze.ts';

const version = '4.3.1';
const log4j = '2.25.4';
const plugin = 'org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies';
const clusterId = '4L6g3nShT-eMCtK--X86sw';
/** Path to the root of the sources, also if this file runs from the build. */
const root = import.meta.url.includes('/dist/test/') ? '../../..' : '../..';
const home = new URL(`${root}/.cache/kafka/${version}`, import.meta.url).pathname;
const archive = join(home, 'classes.jsa');
const run = promisify(execFile);

const jvm = ['-Xms64m', '-Xmx384m', '-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1'];
const logging = join(home, 'log4j2.properties');

export interface KafkaOptions {
  readonly nodes?: 1 | 3;
  /** Additional lines for server.properties. */
  readonly properties?: readonly string[];
  /** Further arguments for `StorageTool format`. */
  readonly formatWords?: readonly string[];
  /** Returns additional server.properties lines for one node. Called once the ports are known. */
  readonly wire?: (node: number, clientPort: number) => readonly string[];
  /** Settings that clients need for the listener. */
  readonly settings?: KafkaSettings;
  /** Address of the single node's listener, if the additional properties change it. */
  readonly listener?: { readonly host: string; readonly port: number };
  /** Number of additional listeners whose traffic the test can disturb. */
  readonly doors?: number;
}

export interface Kafka {
  /** Log URL of the form `kafka://host:port,…`. */
  readonly url: string;
  readonly brokers: readonly string[];
  readonly doors: readonly Door[];
  /** Returns the port of a node's listener. Node numbers begin with 1. */
  port(node: number): number;
  /** Kills the node (kill -9) and waits until it has ended. */
  kill(node: number): Promise<void>;
  /** Restarts a killed node on its existing data and waits until it answers. */
  restart(node: number): Promise<void>;
  /** Suspends the node with SIGSTOP until `thaw` sends SIGCONT. */
  freeze(node: number): void;
  thaw(node: number): void;
  /** Ends all nodes, with SIGKILL unless another signal is given, and removes their data. */
  stop(signal?: NodeJS.Signals): Promise<void>;
}

/** Starts Kafka and waits until every node answers. */
export async function startKafka(options: KafkaOptions = {}): Promise<Kafka> {
  await provideJars();
  return await launch(options, existsSync(archive) ? [`-XX:SharedArchiveFile=${archive}`] : []);
}

async function launch(options: KafkaOptions, flags: readonly string[]): Promise<Kafka> {
  const { nodes = 1, properties = [], formatWords = [], settings = {}, wire = () => [] } = options;
  const doorCount = options.doors ?? 0;
  const folder = mkdtempSync(join(tmpdir(), 'headgate-kafka-'));
  const ports = await freePorts((2 + doorCount) * nodes);
  const host = options.listener?.host ?? '127.0.0.1';
  const port = (node: number) => options.listener?.port ?? ports[node - 1]!;
  const controllerPort = (node: number) => ports[nodes + node - 1]!;
  const ids = Array.from({ length: nodes }, (_, index) => index + 1);
  /** Port of the Kafka listener that a door forwards to. */
  const behind = (door: number, id: number) => ports[(2 + door) * nodes + id - 1]!;
  const doors: Door[] = [];
  for (let n = 0; n < doorCount; n++) doors.push(await Door.open(ids.map((id) => behind(n, id))));
  const voters = ids.map((id) => `${id}@127.0.0.1:${controllerPort(id)}`).join(',');
  const processes = new Map<number, ChildProcess>();
  const start = (id: number) => {
    const out = openSync(join(folder, `${id}.out`), 'a');
    const args = [...jvm, ...flags, `-Dlog4j2.configurationFile=${logging}`, '-cp', classPath()];
    const child = spawn('java', [...args, 'kafka.Kafka', join(folder, `${id}.properties`)], {
      stdio: ['ignore', out, out],
    });
    processes.set(id, child);
  };
  const end = async (id: number, signal: NodeJS.Signals) => {
    const child = processes.get(id);
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, 'exit');
    child.kill(signal);
    await exited;
  };
  const stop = async (signal: NodeJS.Signals = 'SIGKILL') => {
    await Promise.all(doors.map((door) => door.close()));
    await Promise.all(ids.map((id) => end(id, signal)));
    rmSync(folder, { recursive: true, force: true });
  };
  const ready = (id: number) =>
    untilReady({ host, port: port(id) }, nodes, settings, () => lastWords(processes.get(id), folder, id));
  try {
    for (const id of ids) {
      const file = join(folder, `${id}.properties`);
      const own = serverProperties({
        id,
        nodes,
        voters,
        port: port(id),
        controllerPort: controllerPort(id),
        doors: doors.map((door, n) => ({ port: behind(n, id), advertised: door.ports[id - 1]! })),
      });
      const lines = [...own, `log.dirs=${join(folder, String(id))}`, ...properties, ...wire(id, port(id))];
      writeFileSync(file, lines.join('\n'));
    }
    await Promise.all(ids.map((id) => format(folder, id, formatWords)));
    for (const id of ids) start(id);
    await Promise.all(ids.map(ready));
  } catch (error) {
    await stop();
    throw error;
  }
  const brokers = ids.map((id) => `${host}:${port(id)}`);
  return {
    url: `kafka://${brokers.join(',')}`,
    brokers,
    doors,
    port,
    kill: (node) => end(node, 'SIGKILL'),
    restart: async (node) => {
      start(node);
      await ready(node);
    },
    freeze: (node) => freeze(processes.get(node)),
    thaw: (node) => void processes.get(node)?.kill('SIGCONT'),
    stop,
  };
}

interface NodeParts {
  readonly id: number;
  readonly nodes: number;
  readonly voters: string;
  readonly port: number;
  readonly controllerPort: number;
  readonly doors: readonly { readonly port: number; readonly advertised: number }[];
}

/** Returns a node's properties. A killed node counts as lost after 1.5 s instead of 9 s, so that tests need not wait long. */
function serverProperties({ id, nodes, voters, port, controllerPort, doors }: NodeParts): string[] {
  const inSync = nodes > 1 ? 2 : 1;
  const behind = doors.map((door, n) => `,DOOR${n}://127.0.0.1:${door.port}`).join('');
  const advertised = doors.map((door, n) => `,DOOR${n}://127.0.0.1:${door.advertised}`).join('');
  const plain = doors.map((_, n) => `,DOOR${n}:PLAINTEXT`).join('');
  return [
    'process.roles=broker,controller',
    `node.id=${id}`,
    `controller.quorum.voters=${voters}`,
    'controller.listener.names=CONTROLLER',
    `listeners=PLAINTEXT://127.0.0.1:${port},CONTROLLER://127.0.0.1:${controllerPort}${behind}`,
    `advertised.listeners=PLAINTEXT://127.0.0.1:${port}${advertised}`,
    'inter.broker.listener.name=PLAINTEXT',
    `listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT${plain}`,
    'auto.create.topics.enable=false',
    'broker.session.timeout.ms=1500',
    'broker.heartbeat.interval.ms=250',
    `default.replication.factor=${nodes}`,
    `min.insync.replicas=${inSync}`,
    'offsets.topic.num.partitions=1',
    `offsets.topic.replication.factor=${nodes}`,
    'transaction.state.log.num.partitions=1',
    `transaction.state.log.replication.factor=${nodes}`,
    `transaction.state.log.min.isr=${inSync}`,
    'share.coordinator.state.topic.num.partitions=1',
    `share.coordinator.state.topic.replication.factor=${nodes}`,
    `share.coordinator.state.topic.min.isr=${inSync}`,
    'log.cleaner.dedupe.buffer.size=8388608',
  ];
}

/** Formats a node's folder. The result depends only on the node's number and not on its ports, so it is cached. */
async function format(folder: string, id: number, words: readonly string[]): Promise<void> {
  const made = join(folder, String(id));
  const kept = join(home, `formatted-${id}`);
  if (words.length === 0 && existsSync(kept)) return cpSync(kept, made, { recursive: true });
  const args = [...jvm, `-Dlog4j2.configurationFile=${logging}`, '-cp', classPath()];
  await run('java', [
    ...args,
    'kafka.tools.StorageTool',
    'format',
    '-g',
    '-t',
    clusterId,
    '-c',
    join(folder, `${id}.properties`),
    ...words,
  ]);
  if (words.length > 0) return;
  const draft = mkdtempSync(`${kept}.`);
  cpSync(made, draft, { recursive: true });
  try {
    renameSync(draft, kept);
  } catch {
    // Another process has already formatted the folder.
    rmSync(draft, { recursive: true });
  }
}

/** Waits until the listener answers and the cluster has all its brokers. */
async function untilReady(
  listener: { readonly host: string; readonly port: number },
  nodes: number,
  settings: KafkaSettings,
  lastWords: () => string | null,
): Promise<void> {
  const dial = createDial(settings);
  const untilMs = performance.now() + 60_000;
  for (;;) {
    try {
      const connection = await dial(listener);
      const { brokers } = await connection.metadata('none').finally(() => connection.destroy());
      if (brokers.length >= Math.min(nodes, 2) && brokers.some((broker) => broker.port === listener.port))
        return;
    } catch {
      // The node is not ready yet.
    }
    const words = lastWords();
    if (words !== null) throw new Error(`Kafka ended: ${words}`);
    if (performance.now() > untilMs) throw new Error('Kafka did not become ready in time');
    await pause(50);
  }
}

function lastWords(child: ChildProcess | undefined, folder: string, id: number): string | null {
  if (!child || (child.exitCode === null && child.signalCode === null)) return null;
  return readFileSync(join(folder, `${id}.out`), 'utf8').slice(-3000);
}

/**
 * Finds free ports. Keeps all of them open during the search, so that they differ. They lie below the system's range for
 * outgoing connections, because an outgoing connection could otherwise take the port of a node that is temporarily down.
 */
export async function freePorts(count: number): Promise<number[]> {
  const servers: Server[] = [];
  while (servers.length < count) {
    const server = createServer().listen(15_000 + Math.floor(Math.random() * 17_000), '127.0.0.1');
    const listens = await once(server, 'listening').then(
      () => true,
      () => false,
    );
    if (listens) servers.push(server);
  }
  const ports = servers.map((server) => (server.address() as { port: number }).port);
  await Promise.all(servers.map((server) => new Promise((closed) => server.close(closed))));
  return ports;
}

/** Returns the class path in a fixed order, because the class archive is valid only for this order. */
function classPath(): string {
  const jars = readdirSync(join(home, 'lib')).filter((name) => name.endsWith('.jar'));
  return jars
    .sort()
    .map((name) => join(home, 'lib', name))
    .join(':');
}

async function provideJars(): Promise<void> {
  mkdirSync(home, { recursive: true });
  if (!existsSync(logging)) {
    const pattern = 'appender.o.layout.pattern=[%d] %p %m (%c)%n';
    const appender = ['type=Console', 'name=O', 'layout.type=PatternLayout'].map(
      (line) => `appender.o.${line}`,
    );
    const root = ['rootLogger.level=WARN', 'rootLogger.appenderRef.o.ref=O'];
    writeFileSync(logging, [...root, ...appender, pattern].join('\n'));
  }
  if (!existsSync(join(home, 'lib', `kafka_2.13-${version}.jar`))) await download();
  if (!existsSync(archive)) await writeArchive();
}

async function download(): Promise<void> {
  const dependency = ([group, artifact, wanted]: readonly string[]) =>
    `<dependency><groupId>${group}</groupId><artifactId>${artifact}</artifactId><version>${wanted}</version></dependency>`;
  const dependencies = [
    ['org.apache.kafka', 'kafka_2.13', version],
    ['org.apache.logging.log4j', 'log4j-slf4j-impl', log4j],
    ['org.apache.logging.log4j', 'log4j-core', log4j],
  ].map(dependency);
  writeFileSync(
    join(home, 'pom.xml'),
    '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>' +
      '<groupId>local</groupId><artifactId>kafka-jars</artifactId><version>1</version><packaging>pom</packaging>' +
      `<dependencies>${dependencies.join('')}</dependencies></project>`,
  );
  const folder = mkdtempSync(join(home, 'download-'));
  await run('mvn', ['-B', '-q', plugin, '-DincludeScope=runtime', `-DoutputDirectory=${folder}`], {
    cwd: home,
  });
  // The folder is replaced as a whole, so that an interrupted download cannot leave a folder that looks complete.
  rmSync(join(home, 'lib'), { recursive: true, force: true });
  renameSync(folder, join(home, 'lib'));
}

/** Starts and stops a temporary node, because Kafka writes the class archive when it ends. */
async function writeArchive(): Promise<void> {
  const draft = `${archive}.${process.pid}`;
  const kafka = await launch({}, [`-XX:ArchiveClassesAtExit=${draft}`]);
  await kafka.stop('SIGTERM');
  if (existsSync(draft)) renameSync(draft, archive);
}
