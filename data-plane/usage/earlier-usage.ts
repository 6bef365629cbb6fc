/**
 * Takes over a data folder of version 0.1, whose gateways folded the usage rows of all gateways into `usage.db`: what was
 * counted of each period holds until the counters of the others reach it, so that an upgrade gives nobody a second allowance.
 */
import { existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { CounterCopy, EarlierTotal } from '../../shared/limits/counter-copy.ts';
import { isCounted } from '../../shared/limits/counters.ts';
import type { LineLogger } from '../../shared/runtime/logger.ts';
import { openUsageStoreIn } from '../../shared/usage/open-usage.ts';
import type { Outbox } from './outbox.ts';
import { accountKey, accountOfOrganisation } from './worker-messages.ts';

export function takeOverEarlierUsage(
  dataDir: string,
  {
    outbox,
    copy,
    logger,
  }: { readonly outbox: Outbox; readonly copy: CounterCopy; readonly logger: LineLogger },
): void {
  const path = join(dataDir, 'usage.db');
  if (!existsSync(path)) return;
  try {
    copy.setEarlier(earlierTotals(dataDir, outbox));
  } catch (error) {
    logger.error(
      { err: error },
      'the usage that version 0.1 had folded here cannot be read; its allowances count once a control plane has published them',
    );
  }
  for (const suffix of ['-wal', '-shm', '']) rmSync(path + suffix, { force: true });
}

function earlierTotals(dataDir: string, outbox: Outbox): EarlierTotal[] {
  const store = openUsageStoreIn(dataDir, {});
  try {
    const totals = new Map<string, EarlierTotal>();
    const add = (organisation: string, period: string, tokens: number) => {
      const account = accountOfOrganisation(organisation, period);
      const before = totals.get(accountKey(account))?.tokens ?? 0;
      if (isCounted(period, Date.now()))
        totals.set(accountKey(account), { ...account, tokens: before + tokens });
    };
    for (const { organisation, period, tokens } of store.poolTotals()) add(organisation, period, tokens);
    // Rows that were not folded yet.
    for (const { organisation, period, tokens } of outbox.pendingSums((id) => store.highWater(id)))
      if (organisation !== null && period !== null) add(organisation, period, tokens);
    return [...totals.values()];
  } finally {
    store.close();
  }
}
