/**
 * A fleet file by its number of organisations: `validate`, `diff`, `apply`, `apply` again and `export` on the command line,
 * before a control plane of its own. Of the control plane: the processor time of its main thread, and the longest turn of its
 * event loop, which is how long every other caller waits, on a busy machine too. The clock is that of the command. Then each
 * read of the table of operations that needs no parameter, on the fleet that is there. `--sizes N,N` names other sizes.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { adminOperations } from '../schemas/admin.ts';
import { operationNames, routeOf } from '../schemas/admin-routes.ts';
import type { OperationRow } from '../schemas/admin-row.ts';
import { largeFleet } from '../test/support/large-fleet.ts';
import { operatorToken, ProcessFleet } from '../test/support/process-fleet.ts';
import { MeteredPlane } from './support/metered-plane.ts';

const { values } = parseArgs({ options: { sizes: { type: 'string' } } });
const sizes = values.sizes?.split(',').map(Number) ?? [1_000, 10_000];

/** Of one call of each read that is answered without parameters, in ms. */
async function readsOf(metered: MeteredPlane): Promise<Record<string, object>> {
  const figures: Record<string, object> = {};
  for (const name of operationNames) {
    const { method, path } = routeOf(name);
    const { params, mediaType, opens }: OperationRow = adminOperations[name];
    if (method !== 'GET' || params !== undefined || mediaType !== undefined || opens === 'tail') continue;
    await metered.longestTurnMs();
    const threadMs = metered.threadMs();
    const answer = await fetch(`${metered.plane.ready.admin}/admin/v1${path}`, {
      headers: { authorization: `Bearer ${operatorToken}` },
    });
    const { length } = await answer.text();
    const longest = Math.round(await metered.longestTurnMs());
    if (!answer.ok) continue;
    const thread = Math.round(metered.threadMs() - threadMs);
    figures[name] = { 'longest turn, ms': longest, 'its thread, ms': thread, bytes: length };
  }
  return figures;
}

async function figuresOf(organisations: number): Promise<Record<string, Record<string, object>>> {
  const fleet = new ProcessFleet();
  try {
    const bench = await MeteredPlane.start(fleet);
    const [file, changed, exported, ignored] = ['fleet.json', 'changed.json', 'exported.yaml', 'output'].map(
      (name) => join(fleet.dir, name),
    ) as [string, string, string, string];
    const document = largeFleet(organisations);
    writeFileSync(file, JSON.stringify(document));
    const half = document.organisations?.map((each, n) => (n % 2 ? { ...each, name: `Other ${n}` } : each));
    writeFileSync(changed, JSON.stringify({ ...document, organisations: half }));
    const figures = {
      validate: await bench.measure(['validate', '-f', file], ignored),
      diff: await bench.measure(['diff', '-f', file], ignored),
      apply: await bench.measure(['apply', '-f', file], ignored),
      'apply, unchanged': await bench.measure(['apply', '-f', file], ignored),
      'diff, half changed': await bench.measure(['diff', '-f', changed], ignored),
      export: await bench.measure(['export'], exported),
      'validate, exported': await bench.measure(['validate', '-f', exported], ignored),
      'diff, exported': await bench.measure(['diff', '-f', exported], ignored),
    };
    return { files: figures, reads: await readsOf(bench) };
  } finally {
    await fleet.close();
  }
}

const bySize: Record<string, object> = {};
for (const organisations of sizes) {
  const figures = await figuresOf(organisations);
  console.log(`${organisations.toLocaleString('en')} organisations`);
  for (const table of Object.values(figures)) console.table(table);
  bySize[organisations] = figures;
}
console.log(JSON.stringify(bySize));
