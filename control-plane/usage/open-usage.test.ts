/** Tests that faulty usage rows appear in a log line and in a metric, with a real log and a real file. */
import { join } from 'node:path';
import { Registry } from 'prom-client';
import { beforeEach, expect, test } from 'vitest';
import { usageTopic } from '../../schemas/records/usage.ts';
import { RecordMac } from '../../shared/log/core/record-mac.ts';
import { usageLogAddress } from '../../shared/usage/usage-log.ts';
import { folderOfTest } from '../../test/support/folders.ts';
import { openUsage } from './open-usage.ts';
import { countUsageRows } from './usage-metrics.ts';

const token = 'gateway-token-of-the-tests';
const mac = new RecordMac(usageTopic, token);
const nobody = (value: Buffer) => new RecordMac(usageTopic, 'another-gateway-token').of(value);
let dir: string;
beforeEach(() => {
  dir = folderOfTest('usage');
});

function row(n: number, promptTokens: number, v = 1): Buffer {
  const incarnation = '0f8fad5b-d9cb-469f-a165-70867728950e';
  const at = '2026-11-21T10:00:00.000Z';
  const whose = { organisation: 'acme', period: '2026-11-01', draw: 'pool', model: 'echo-small' };
  return Buffer.from(
    JSON.stringify([{ v, incarnation, n, at, ...whose, promptTokens, completionTokens: 0, requestId: 'r' }]),
  );
}

test.each<[what: string, outcome: string, records: Buffer[], macOf?: (value: Buffer) => Buffer | null]>([
  ['a repeat that differs', 'differing', [row(1, 5), row(1, 6)]],
  ['a row of an unknown version', 'unread', [row(1, 5, 99)]],
  ['something that is not a row', 'junk', [Buffer.from('no row')]],
  ['a record without a MAC', 'unsigned', [row(1, 5)], () => null],
  ['a record with another token’s MAC', 'wrong_mac', [row(1, 5)], nobody],
])(
  '%s raises an alarm: a log line and a metric',
  async (_what, outcome, records, macOf = mac.of.bind(mac)) => {
    const logUrl = `sqlite:${join(dir, 'log')}`;
    const log = await usageLogAddress(logUrl).open(0);
    for (const record of records) await log.append(record, macOf(record));
    const lines: { fields: object; text: string }[] = [];
    const write = (fields: object, text: string) => lines.push({ fields, text });
    const logger = { info: () => undefined, warn: () => undefined, error: write, fatal: write };
    const usage = await openUsage({ logUrl, dataDir: dir, tokens: [token], keepRows: true, logger });
    usage.start();
    const registry = new Registry();
    countUsageRows(registry, usage.counts);
    expect(await usage.replicator.caughtUp(10_000)).toBe(true);
    expect(lines).toEqual([
      { fields: { rows: { [outcome]: 1 } }, text: expect.stringMatching(/differ .* or are not counted/) },
    ]);
    expect(await registry.metrics()).toContain(`headgate_usage_rows_total{outcome="${outcome}"} 1\n`);
    await usage.close();
    await log.close();
  },
);
