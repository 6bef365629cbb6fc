/** Tests that a pin applies to the first record of a log, in every pin format and with any number of earlier records. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { newSigner } from '../../../test/contract/signer-changes.ts';
import { ChainWriter, known } from '../../../test/support/commits.ts';
import { folderOfFile } from '../../../test/support/folders.ts';
import { MemoryLog, MemoryTopic } from '../../../test/support/memory-log.ts';
import { checkTrust } from '../../snapshot/log-identity.ts';
import { memorySnapshot } from '../../snapshot/open-snapshot.ts';
import { Replicator } from '../../snapshot/replicator.ts';
import { composeCommit, emptyHead } from './chain.ts';
import { type LogRecord, LogReplaced } from './control-log.ts';
import { computeFingerprint, type Signer } from './signing.ts';
import { parsePins, TrustedSigners } from './trust.ts';

const dir = folderOfFile('trust');
const [own, outsider] = [newSigner(), newSigner()] as const;
const pins = new TrustedSigners([own.publicKey]);

function genesis(signers: readonly Signer[], by: Signer | undefined): LogRecord {
  const data = { log: 'main', ...(signers.length > 0 && { signers: signers.map((one) => one.publicKey) }) };
  const events = [{ type: 'log.created', v: 1, critical: true, data }];
  const at = '2026-11-01T00:00:00.000Z';
  const value = composeCommit({ head: emptyHead('main'), id: 'create', at, by: 'test', events });
  return { offset: 0, value, signature: by?.sign(value) ?? null };
}
const junk: LogRecord = { offset: 0, value: Buffer.from('junk'), signature: null };

function logOf(records: readonly LogRecord[]): { topic: MemoryTopic; log: MemoryLog } {
  const topic = new MemoryTopic();
  for (const { value, signature } of records) topic.add(value, signature);
  return { topic, log: new MemoryLog(topic) };
}

test.each([
  ['an unsigned log', [genesis([], undefined)], /is not signed/],
  [
    'a log of another signer',
    [genesis([outsider], outsider)],
    new RegExp(computeFingerprint(outsider.publicKey)),
  ],
  [
    'a log of another signer that also names a pinned signer',
    [genesis([outsider, own], outsider)],
    /log main is refused/,
  ],
  [
    'an unsigned log before a signed one',
    [genesis([], undefined), genesis([own], own)],
    /log main is refused/,
  ],
])('%s is refused by name, and none of it is folded', async (_, records, message) => {
  expect(() => pins.checkBeginning(records)).toThrow(LogReplaced);
  expect(() => pins.checkBeginning(records)).toThrow(message);
  const { log } = logOf([junk, ...records]);
  const snapshot = memorySnapshot();
  const replicator = new Replicator({ snapshot, log, trusted: pins });
  replicator.start();
  await expect(replicator.caughtUp(10_000)).rejects.toThrow(message);
  expect([snapshot.seq, replicator.freshness.proven]).toEqual([0, false]);
  await replicator.stop();
});

test('records that cannot begin a log are skipped, even if one search cannot read them all', async () => {
  const unsigned = { ...genesis([own], own), signature: null };
  pins.checkBeginning([junk, unsigned, genesis([own, outsider], own)]);
  const lots = Array.from({ length: 10_100 }, () => junk);
  const { log } = logOf([...lots, genesis([], undefined)]);
  const snapshot = memorySnapshot();
  const replicator = new Replicator({ snapshot, log, trusted: pins });
  replicator.start();
  await expect(replicator.caughtUp(20_000)).rejects.toThrow(/log main is refused/);
  expect(snapshot.seq).toBe(0);
  await replicator.stop();
});

test('a state from before the pin is refused unless a pinned key signed its log’s first record', async () => {
  for (const [signer, fits] of [
    [own, true],
    [outsider, false],
  ] as const) {
    const writer = new ChainWriter({ log: 'main', signer });
    const records = [writer.open(), writer.add([known('no_op', {})])];
    const snapshot = memorySnapshot();
    snapshot.apply(records);
    const { log } = logOf(records);
    const check = checkTrust(log, snapshot, pins);
    if (fits) await expect(check).resolves.toBeUndefined();
    else await expect(check).rejects.toThrow(/log main is refused/);
    // The stored state belongs to a different log than the one that begins here, although this log also contains the state's
    // last record.
    await expect(
      checkTrust(
        logOf([genesis([own], own)]).log,
        { ...snapshot, log: 'x', seq: 2, headOffset: 1, head: snapshot.head },
        pins,
      ),
    ).rejects.toThrow(/does not begin/);
  }
});

test('later changes of the signers do not require a new pin', async () => {
  const { log, topic } = logOf([genesis([own], own)]);
  const snapshot = memorySnapshot();
  const replicator = new Replicator({ snapshot, log, trusted: pins });
  replicator.start();
  await replicator.caughtUp(10_000);
  const next = (events: Parameters<typeof composeCommit>[0]['events'], by: Signer): void => {
    const at = '2026-11-01T00:00:00.000Z';
    const value = composeCommit({ head: snapshot.head, id: `c-${snapshot.seq}`, at, by: 'test', events });
    topic.add(value, by.sign(value));
  };
  next([{ type: 'log.signers_set', v: 1, critical: true, data: { signers: [outsider.publicKey] } }], own);
  await replicator.caughtUp(10_000);
  next([{ type: 'no_op', v: 1, critical: false, data: {} }], outsider);
  await replicator.caughtUp(10_000);
  expect(snapshot.seq).toBe(3);
  await replicator.stop();
  await expect(checkTrust(log, snapshot, pins)).resolves.toBeUndefined();
});

test('a pin is a fingerprint, a public key or its file, and anything else prevents the start', () => {
  const file = join(dir, 'own.pub');
  writeFileSync(file, `-----BEGIN PUBLIC KEY-----\n${own.publicKey}\n-----END PUBLIC KEY-----\n`);
  const fingerprint = computeFingerprint(own.publicKey);
  for (const pin of [fingerprint, fingerprint.toUpperCase(), own.publicKey, file]) {
    expect(new TrustedSigners([pin]).has(own.publicKey)).toBe(true);
    expect(new TrustedSigners([pin]).has(outsider.publicKey)).toBe(false);
  }
  for (const pin of ['', ' ', 'abc', join(dir, 'missing.pub'), fingerprint.slice(1), `${'A'.repeat(59)}=`])
    expect(() => parsePins([pin])).toThrow(/--trust-signer/);
  expect(parsePins([])).toBeUndefined();
});
