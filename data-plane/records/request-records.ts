/**
 * Records every request when it ends: in the access log, in spans and in the journal. The folder `data-plane/records` must
 * not record prompts, answers, keys, or names that only a caller has chosen.
 */
import type { RecordedRequest } from '../../schemas/records/request-record.ts';
import { wallClockMs } from '../../shared/runtime/clock.ts';
import type { AccessLog } from '../../shared/runtime/logger.ts';
import type { Lookup } from '../../shared/snapshot/lookup.ts';
import type { EarlyRefusal } from '../http/early-refusal.ts';
import { isModelName } from '../request/model-names.ts';
import type { RequestRecord } from '../request/request-record.ts';
import type { DecisionJournal } from './decision-journal.ts';
import { toLogLine } from './project.ts';
import { recordedEarly, toRecordedRequest } from './recorded.ts';

export interface RequestRecordsOptions {
  readonly lookup: Pick<Lookup, 'position' | 'overlaid' | 'isCatalogued' | 'isPooled'>;
  readonly accessLog: AccessLog;
  readonly journal: DecisionJournal | undefined;
  readonly traces: { end(record: RequestRecord, recorded: RecordedRequest, endMs: number): void } | undefined;
}

export class RequestRecords {
  readonly #options: RequestRecordsOptions;
  readonly #isKnown: (model: string) => boolean;

  constructor(options: RequestRecordsOptions) {
    this.#options = options;
    const { lookup } = options;
    this.#isKnown = (model) => isModelName(lookup, model);
  }

  /** Records a request that ended at `endMs`, a time by the monotonic clock. Never throws. */
  add(record: RequestRecord, endMs: number): void {
    const { lookup, accessLog, journal, traces } = this.#options;
    const moment = {
      nowMs: wallClockMs(),
      endMs,
      position: lookup.position(),
      overlaid: lookup.overlaid(),
      isKnown: this.#isKnown,
    };
    const recorded = toRecordedRequest(record, moment);
    if (accessLog.isEnabled()) accessLog.write(toLogLine(recorded), 'request');
    journal?.add(record, recorded);
    traces?.end(record, recorded, endMs);
  }

  /** Records a request that was refused before it was handled, such as invalid HTTP. Never throws. */
  addEarly(refused: EarlyRefusal): void {
    const { lookup, journal } = this.#options;
    journal?.addEarly(recordedEarly(refused, { nowMs: wallClockMs(), position: lookup.position() }));
  }
}
