/**
 * What an open change costs the fold: one long log into two snapshot files in turns, in one of which a change of a tier and a
 * model is staged before the first key, and again with the files in the other order. Processor time, because other programs may
 * run. `--events N` sets the log's length.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { type KnownEvent, toStored } from '../schemas/events.ts';
import { openOrRebuild } from '../shared/snapshot/open-snapshot.ts';
import { ChainWriter, known } from '../test/support/commits.ts';
import { longLog } from './support/long-log.ts';

const { values } = parseArgs({ options: { events: { type: 'string', default: '500000' } } });
const eventCount = Number(values.events);
const batchSize = 5000;
const staged = known('change.staged', {
  change: '9',
  events: [
    known('tier.set', { id: 'Team', rank: 1, requestsPerMinute: 30, models: ['echo-small'] }),
    known('model.set', { id: 'echo-large', family: 'echo', added: '2026-01-01T00:00:00Z', weight: 4 }),
  ].map(toStored),
  waves: [{ share: 0.5 }, { share: 1 }],
  ...{ holdSeconds: 300, watch: { refusals: 1, errors: 1, least: 50 } },
});

const folder = mkdtempSync(join(tmpdir(), 'headgate-bench-'));
const totalMs = { without: 0, with: 0 };
type Kind = keyof typeof totalMs;

function openSide(kind: Kind, path: string) {
  const { snapshot } = openOrRebuild(path);
  const writer = new ChainWriter({ log: 'bench' });
  snapshot.apply([writer.open()]);
  return { kind, snapshot, writer };
}
type Side = ReturnType<typeof openSide>;

function fold({ kind, writer, snapshot }: Side, events: readonly KnownEvent[]): void {
  const records = events.map((event) => writer.add([event]));
  const from = process.cpuUsage();
  snapshot.apply(records);
  const { user, system } = process.cpuUsage(from);
  totalMs[kind] += (user + system) / 1000;
}

function stage({ kind, writer, snapshot }: Side): void {
  if (kind === 'without') return;
  snapshot.apply([writer.add([staged])]);
  if (snapshot.db.prepare('SELECT count(*) FROM overlay').pluck().get() === 0)
    throw new Error('the change was not staged');
}

// The file that was opened second costs some percent more, whichever it is.
for (const kinds of [['without', 'with'] as const, ['with', 'without'] as const]) {
  const sides = kinds.map((kind) => openSide(kind, join(folder, `${kind}-${kinds.indexOf(kind)}.db`)));
  let batches = 0;
  for (const events of longLog(eventCount, batchSize)) {
    for (const side of batches % 2 === 0 ? sides : sides.toReversed()) fold(side, events);
    if (batches++ === 0) sides.forEach(stage);
  }
  for (const { snapshot } of sides) snapshot.close();
}
const percent = (100 * (totalMs.with - totalMs.without)) / totalMs.without;
process.stdout.write(
  [
    `2 × ${eventCount} events without a change   ${totalMs.without.toFixed(0)} ms`,
    `with an open one   ${totalMs.with.toFixed(0)} ms (${percent.toFixed(1)} % more)`,
    JSON.stringify({ withoutMs: totalMs.without, withMs: totalMs.with, percent }),
    '',
  ].join('\n'),
);
rmSync(folder, { recursive: true, force: true });
