/** Rows of usage as a gateway's meter makes them, and groups of them as they come to the outbox. */
import type { UsageGroup } from '../../data-plane/usage/outbox-spool.ts';
import type { RecordedUsage } from '../../data-plane/usage/rows.ts';

/** A row of an organisation's request to the pool, with what differs; its fields in the order of the meter. */
export function usageRow({ requestId = 'r-1', ...more }: Partial<RecordedUsage> = {}): RecordedUsage {
  return {
    at: '2026-11-21T10:00:00.000Z',
    organisation: 'acme',
    period: '2026-11-01',
    draw: 'pool',
    model: 'echo-small',
    promptTokens: 3,
    completionTokens: 4,
    ...more,
    requestId,
  };
}

export function usageText(...rows: readonly RecordedUsage[]): string {
  return rows.map((row) => `${JSON.stringify(row)},\n`).join('');
}

let groups = 0;

/** Groups are numbered in the order in which they are made. */
export function usageGroup(...rows: readonly RecordedUsage[]): UsageGroup {
  return { number: ++groups, rows: usageText(...rows), count: rows.length };
}
