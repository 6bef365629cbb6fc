/**
 * Measures how the cost of the admin API depends on the number of keys: for pages, searches and counts, and for keys that are
 * created, revoked and removed. Everything runs in this process over a log in memory. Figures are CPU time of the event
 * loop's thread, because that is how long other callers wait. `--full` adds a million keys; `--sizes N,N` sets other sizes.
 */
import { randomBytes } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { operator } from '../../control-plane/commands/authorise.ts';
import { CommandWriter } from '../../control-plane/commands/command-writer.ts';
import { cardinalityLimits } from '../../control-plane/commands/counted-events.ts';
import { planCommand } from '../../control-plane/commands/definition.ts';
import { EndedKeys, type EndedKeysOptions } from '../../control-plane/commands/ended-keys.ts';
import { commands } from '../../control-plane/commands/registry.ts';
import { listPage, type PageQuery } from '../../control-plane/state/list-page.ts';
import { keyListing, organisationListing } from '../../control-plane/state/tenants.ts';
import type { KnownEvent } from '../../schemas/events/events.ts';
import { createLogger } from '../../shared/runtime/logger.ts';
import { openOrRebuild } from '../../shared/snapshot/open-snapshot.ts';
import { Replicator } from '../../shared/snapshot/replicator.ts';
import type { Snapshot } from '../../shared/snapshot/snapshot.ts';
import { ChainWriter, firstMomentMs, known, sha256 } from '../../test/support/commits.ts';
import { MemoryLog, MemoryTopic } from '../../test/support/memory-log.ts';

const { values } = parseArgs({
  options: { full: { type: 'boolean', default: false }, sizes: { type: 'string' } },
});
const sizes = values.sizes?.split(',').map(Number) ?? [1_000, 100_000, ...(values.full ? [1_000_000] : [])];
const keysPerCommit = 100;
const keysPerOrganisation = 100;
/** Bounds that are so high that the bench never reaches them. */
const bounds = known('bounds.set', { activeKeysPerOrganisation: 1_000_000, keysPerOrganisation: 1_000_000 });
const keysMade = 200;
/** Number of keys that the bench may create before the total bound is reached. */
const room = 2000;
const callers = 64;
const keysAtOnce = 1000;
const repeats = 3;
const measuredMs = 60;

type Figures = Record<string, number>;

/** Returns the CPU time that this thread has used so far, in ms. */
function loopMs(): number {
  return Number(readFileSync('/proc/thread-self/schedstat', 'utf8').split(' ')[0]) / 1e6;
}

const round = (value: number): number => Number(value.toPrecision(3));

/** Returns the CPU time of some work in ms. Short work is repeated, because the kernel counts in ticks of several ms. */
function costMs(work: () => void): number {
  const beganMs = loopMs();
  for (let times = 1; ; times++) {
    work();
    const tookMs = loopMs() - beganMs;
    if (times >= repeats && tookMs >= measuredMs) return round(tookMs / times);
  }
}

function keyCreated(n: number, organisations: number): KnownEvent {
  return known('key.created', {
    ...{ id: `key-${n}`, organisation: `org-${n % organisations}`, name: `service ${n % 77}` },
    ...{ hash: sha256(`key ${n}`), expires: 'never', expiresAt: null },
  });
}

/** Creates a file that contains a fleet with this many keys, and the log from which the fleet was folded. */
function makeFleet(path: string, keys: number): { readonly snapshot: Snapshot; readonly topic: MemoryTopic } {
  const organisations = Math.max(1, Math.min(10_000, keys / keysPerOrganisation));
  const { snapshot } = openOrRebuild(path);
  const topic = new MemoryTopic();
  const writer = new ChainWriter({ log: 'bench' });
  const add = (record: ReturnType<ChainWriter['add']>): void => {
    topic.add(record.value);
    if (snapshot.apply([record]).accepted.length !== 1) throw new Error('the fold passed over a commit');
  };
  add(writer.open());
  add(writer.add([bounds]));
  for (let n = 0; n < organisations; n++)
    add(
      writer.add([
        known('organisation.set', {
          id: `org-${n}`,
          name: `Organisation ${n}`,
          tier: null,
          anchor: '2026-01-01',
        }),
      ]),
    );
  for (let from = 0; from < keys; from += keysPerCommit)
    add(
      writer.add(
        Array.from({ length: Math.min(keysPerCommit, keys - from) }, (_, at) =>
          keyCreated(from + at, organisations),
        ),
      ),
    );
  return { snapshot, topic };
}

function listCosts({ db }: Snapshot): Figures {
  const nowMs = firstMomentMs;
  const page = (query: Partial<PageQuery>) => listPage(db, keyListing, { nowMs, limit: 100, ...query });
  return {
    'list of keys without a limit': costMs(() => listPage(db, keyListing, { nowMs })),
    'page of 100 keys': costMs(() => page({})),
    'page of 1,000 keys': costMs(() => page({ limit: 1000 })),
    'page, newest first': costMs(() => page({ sort: '-createdAt' })),
    'page in the middle': costMs(() => page({ after: page({ limit: 1000 }).next })),
    'page of an organisation': costMs(() => page({ owner: 'org-0' })),
    'search that finds nothing': costMs(() => page({ text: 'nowhere' })),
    'search that finds many': costMs(() => page({ text: 'service 7' })),
    'page of revoked keys': costMs(() => page({ state: 'revoked' })),
    'page of organisations': costMs(() => listPage(db, organisationListing, { nowMs, limit: 100 })),
    ...wholeList(page),
  };
}

/** Measures reading a whole list page by page, as the CLI does. */
function wholeList(page: (query: Partial<PageQuery>) => ReturnType<typeof listPage>): Figures {
  let [total, longest] = [0, 0];
  let after: string | undefined;
  do {
    const beganMs = loopMs();
    after = page({ limit: 1000, after }).next;
    const tookMs = loopMs() - beganMs;
    total += tookMs;
    longest = Math.max(longest, tookMs);
  } while (after !== undefined);
  return { 'all pages of 1,000 keys': round(total), 'the longest of them': round(longest) };
}

const defineNode = (name: string) => {
  const found = commands.find((each) => each.name === name);
  if (!found) throw new Error(`there is no command ${name}`);
  return found;
};

/** Measures the decision to create a key. Most of the cost is counting existing keys, because their number is bounded. */
function decideCost({ db }: Snapshot): Figures {
  const body = { organisation: 'org-0', name: 'one more', expires: 'never' };
  const context = { nowMs: firstMomentMs, actor: operator, mint: randomBytes };
  const definition = defineNode('key.create');
  return {
    'decide a key, with its bounds': costMs(() => planCommand(definition, db, { params: {}, body }, context)),
  };
}

async function createCosts(snapshot: Snapshot, topic: MemoryTopic): Promise<Figures> {
  const log = new MemoryLog(topic);
  const replicator = new Replicator({ snapshot, log });
  replicator.start();
  const writer = new CommandWriter({ snapshot, replicator, log });
  const body = { organisation: 'org-0', name: 'one more', expires: 'never' };
  const run = async (name: string, body?: object, params: object = {}): Promise<void> => {
    const id = randomBytes(12).toString('hex');
    await writer.run(defineNode(name), { params, body }, { id, actor: operator });
  };
  const create = () => run('key.create', body);
  try {
    await create();
    const oneByOne = await made(keysMade, async () => {
      for (let n = 0; n < keysMade; n++) await create();
    });
    const atOnce = await made(keysMade, async () => {
      const waiting = Array.from({ length: callers }, async (_, caller) => {
        for (let n = caller; n < keysMade; n += callers) await create();
      });
      await Promise.all(waiting);
    });
    const items = Array.from({ length: keysAtOnce }, () => body);
    const many = await made(keysAtOnce, () => run('key.create', { items }));
    const revoked = snapshot.db
      .prepare<[number], string>("SELECT id FROM api_key WHERE organisation = 'org-0' LIMIT ?")
      .pluck()
      .all(keysMade) as string[];
    const revoke = await made(revoked.length, async () => {
      for (const id of revoked) await run('key.revoke', undefined, { id });
    });
    return {
      'create a key': oneByOne.costMs,
      'keys a second': oneByOne.perSecond,
      [`create a key, ${callers} callers`]: atOnce.costMs,
      [`keys a second, ${callers} callers`]: atOnce.perSecond,
      [`create a key of ${keysAtOnce} in one command`]: many.costMs,
      [`keys a second, ${keysAtOnce} in one command`]: many.perSecond,
      'revoke a key': revoke.costMs,
      ...(await forgetCosts({ snapshot, replicator, writer })),
    };
  } finally {
    await replicator.stop();
  }
}

/** Measures removing the keys that were revoked last. The clock is far ahead, so that they can be removed. */
async function forgetCosts(
  parts: Pick<EndedKeysOptions, 'snapshot' | 'replicator' | 'writer'>,
): Promise<Figures> {
  const logger = createLogger('bench', 'silent');
  const endedKeys = new EndedKeys({ ...parts, name: 'bench', logger, forgetAfterMs: 0 });
  let keys = 0;
  const beganMs = loopMs();
  for (let more = 1; more > 0; keys += more) more = await endedKeys.forget();
  return { 'forget a key': round((loopMs() - beganMs) / Math.max(1, keys)), 'keys forgotten': keys };
}

async function made(count: number, work: () => Promise<void>) {
  const [beganMs, clockMs] = [loopMs(), performance.now()];
  await work();
  const perSecond = Math.round((count * 1000) / (performance.now() - clockMs));
  return { costMs: round((loopMs() - beganMs) / count), perSecond };
}

async function measureSize(size: number): Promise<Figures> {
  const keys = Math.min(size, cardinalityLimits.keys - room);
  const folder = mkdtempSync(join(tmpdir(), 'headgate-bench-'));
  try {
    const beganMs = loopMs();
    const { snapshot, topic } = makeFleet(join(folder, 'state.db'), keys);
    const foldMs = loopMs() - beganMs;
    const figures = {
      'make and fold a key, µs': round((foldMs * 1000) / keys),
      ...listCosts(snapshot),
      ...decideCost(snapshot),
      ...(await createCosts(snapshot, topic)),
    };
    snapshot.close();
    return figures;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

const bySize: Record<string, Figures> = {};
for (const keys of sizes) bySize[keys.toLocaleString('en')] = await measureSize(keys);
const rows = Object.keys(Object.values(bySize)[0] ?? {});
console.log('ms of the event loop, by number of keys');
console.table(
  Object.fromEntries(
    rows.map((row) => [
      row,
      Object.fromEntries(Object.entries(bySize).map(([size, figures]) => [size, figures[row]])),
    ]),
  ),
);
console.log(JSON.stringify(bySize));
