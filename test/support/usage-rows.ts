/** Rows of usage as a gateway's meter makes them, and an outbox with the log that its process appends them to. */

import { type Outbox, type OutboxOptions, openOutbox } from '../../data-plane/usage/outbox.ts';
import type { RecordedUsage } from '../../data-plane/usage/rows.ts';
import type { SegmentLog } from '../../data-plane/usage/segment-log.ts';
import { append, openUsageLog } from '../../data-plane/usage/usage-log.ts';

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

  /** As a group of its own, that the outbox does not read yet. */
  append(...rows: readonly RecordedUsage[]): Promise<void> {
    return append(this.log, { rows: usageText(...rows), count: rows.length });
  }

  /** The outbox reads all so far. */
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
