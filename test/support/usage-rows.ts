/** Usage rows as a gateway's meter writes them, and an outbox together with the log to which its process appends rows. */

import { type Outbox, type OutboxOptions, openOutbox } from '../../data-plane/usage/outbox.ts';
import type { RecordedUsage } from '../../data-plane/usage/rows.ts';
import type { SegmentLog } from '../../data-plane/usage/segment-log.ts';
import { append, openUsageLog } from '../../data-plane/usage/usage-log.ts';

/** Returns a row for an organisation's request to the pool, in the meter's order of fields. `more` replaces fields. */
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

function usageText(...rows: readonly RecordedUsage[]): string {
  return rows.map((row) => `${JSON.stringify(row)},\n`).join('');
}

export class UsageBox {
  readonly outbox: Outbox;
  readonly log: SegmentLog;

  constructor(options: OutboxOptions) {
    this.outbox = openOutbox(options);
    this.log = openUsageLog(this.outbox.logStart(), () => this.outbox.file.safelyShipped);
  }

  /** Appends the rows as one group, which the outbox will read later. */
  append(...rows: readonly RecordedUsage[]): Promise<void> {
    return append(this.log, { rows: usageText(...rows), count: rows.length });
  }

  /** Makes the outbox read everything appended so far. */
  flush(): boolean {
    this.outbox.follow(this.log.next);
    return this.outbox.flush();
  }

  async record(...rows: readonly RecordedUsage[]): Promise<void> {
    await this.append(...rows);
    this.outbox.follow(this.log.next);
  }

  async close(): Promise<void> {
    this.outbox.close();
    await this.log.close();
  }
}
