/**
 * `npm run golden -- add` adds everything that the golden tests ask for, and never changes existing entries. It adds:
 * - a log with samples of those event types that no log contains;
 * - the digests of each log for a new fold version;
 * - the keys behind new `{name}` hashes;
 * - the decision of each line in `decisions.jsonl` that has none;
 * - the promise that covers the lines.
 *
 * If existing entries no longer hold, it adds nothing. Every later build must repeat what an added line says, so read the
 * lines before you commit them.
 */
import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { hashKey, mintKey, parseKey } from '../../shared/ids/api-key.ts';
import { foldVersion } from '../../shared/snapshot/fold.ts';
import { fleetHistory, randomEvent, recordsOf } from '../support/commits.ts';
import { seededRandom } from '../support/random.ts';
import { replayDecision } from './decisions/replay.ts';
import {
  brokenPromises,
  decisionLines,
  type ExpectedOfLog,
  expectedOf,
  folded,
  goldenFolder,
  goldenLogs,
  goldenText,
  linesOf,
  promiseOf,
  readLog,
  readPromised,
  typesWithoutLog,
} from './golden-files.ts';

/** Number of random commits before the samples, so that the samples refer to existing objects. */
const historyCommits = 40;
const samplesOfType = 3;

/** Returns the existing entries that no longer hold. */
function faults(): string[] {
  const promises = brokenPromises(decisionLines()).map(
    (entry) => `decisions: a line that entry ${entry} of promised.json covers was changed`,
  );
  const digests = goldenLogs().flatMap((name) => {
    const { position, digestsByFoldVersion } = expectedOf(name);
    const now = folded(readLog(name));
    const promised = digestsByFoldVersion[foldVersion];
    if (!isDeepStrictEqual(now.position, position)) return [`${name}: another position`];
    if (promised === undefined || isDeepStrictEqual({ ...promised }, now.snapshot.digests())) return [];
    return [`${name}: other digests, so foldVersion is to be raised`];
  });
  return [...promises, ...digests];
}

/** Writes a golden file. With the flag `wx`, fails if the file exists. */
function write(name: string, text: string, flag: 'w' | 'wx' = 'w'): void {
  writeFileSync(join(goldenFolder, name), `${text}\n`, { flag });
  process.stdout.write(`test/replay/${name}\n`);
}

function addLog(): void {
  const types = typesWithoutLog();
  const [first] = types;
  if (first === undefined) return;
  const random = seededRandom(foldVersion);
  const samples = types.flatMap((type) =>
    Array.from({ length: samplesOfType }, () => [randomEvent(random, type)]),
  );
  const records = recordsOf([...fleetHistory(foldVersion, historyCommits), ...samples]);
  const name = first.replace(/[._]/g, '-');
  const lines = records.map(({ offset, value }) => ({ offset, value: value.toString('base64') }));
  write(`${name}.jsonl`, lines.map((line) => JSON.stringify(line)).join('\n'), 'wx');
  writeExpected(name, { position: folded(records).position, digestsByFoldVersion: {} });
}

function writeExpected(name: string, expected: ExpectedOfLog): void {
  write(`${name}.expected.json`, JSON.stringify(expected, null, 2));
}

function addDigests(): void {
  for (const name of goldenLogs()) {
    const expected = expectedOf(name);
    if (expected.digestsByFoldVersion[foldVersion] !== undefined) continue;
    const digests = folded(readLog(name)).snapshot.digests();
    const digestsByFoldVersion = { ...expected.digestsByFoldVersion, [foldVersion]: digests };
    writeExpected(name, { ...expected, digestsByFoldVersion });
  }
}

/** Replaces `"hash":"{name}"` in commits with the hash of the key that has this name. */
function addKeys(): void {
  const file = 'decisions/commits.jsonl';
  const keys: Record<string, string> = JSON.parse(goldenText('decisions/keys.json'));
  const named = goldenText(file).trimEnd();
  const text = named.replace(/"hash":"\{(.+?)\}"/g, (_, name: string) => {
    keys[name] ??= mintKey(randomBytes);
    const key = parseKey(keys[name]);
    if (key === undefined) throw new Error(`${name} in keys.json is no key`);
    return `"hash":"${hashKey(key).toString('hex')}"`;
  });
  if (text === named) return;
  write('decisions/keys.json', JSON.stringify(keys, null, 2));
  write(file, text);
}

/** Adds missing decisions. Imports the corpus late, because it reads its files when it is imported. */
async function addDecisions(): Promise<void> {
  const { comparable, corpusHosts, factsOf, openCorpus, recordedCases } = await import(
    './decisions/corpus.ts'
  );
  const file = 'decisions/decisions.jsonl';
  const corpus = openCorpus();
  let added = 0;
  const lines = linesOf(file).map((line, index) => {
    const golden = recordedCases[index];
    if (golden === undefined || 'decision' in JSON.parse(line)) return line;
    added++;
    const decided = replayDecision(corpus.at(golden), factsOf(golden), corpusHosts);
    const { message, ...decision }: Record<string, unknown> = comparable(decided);
    process.stdout.write(`${golden.name}: ${message ?? decided.kind}\n`);
    return JSON.stringify({ ...golden, decision });
  });
  corpus.close();
  if (added > 0) write(file, lines.join('\n'));
}

function addPromise(): void {
  const promised = readPromised();
  const now = promiseOf(decisionLines());
  if (isDeepStrictEqual(promised.at(-1), now)) return;
  write('decisions/promised.json', JSON.stringify([...promised, now], null, 2));
}

function fail(code: number, ...lines: readonly string[]): never {
  process.stderr.write(`${lines.join('\n')}\n`);
  process.exit(code);
}

if (process.argv[2] !== 'add') fail(2, 'npm run golden -- add');
const found = faults();
if (found.length > 0) fail(1, ...found, 'nothing was added');
addLog();
addDigests();
addKeys();
await addDecisions();
addPromise();
