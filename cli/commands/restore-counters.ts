/** Reads the former gateways' usage from the counters topic, so that a restore neither refunds usage nor charges it twice. */
import {
  countersTopic,
  limitTopicKeepSeconds,
  readCounterRecord,
  rowsReplica,
} from '../../schemas/records/limits.ts';
import { CounterState, counterKey } from '../../shared/limits/counters.ts';
import type { LogRecord } from '../../shared/log/core/control-log.ts';
import { RecordMac } from '../../shared/log/core/record-mac.ts';
import { openLog } from '../../shared/log/open-log.ts';
import { agreedMs, wallClockMs } from '../../shared/runtime/clock.ts';
import { readSecret, SecretUnusable } from '../../shared/runtime/secrets.ts';
import { CliError, interrupted, usageError } from '../terminal/errors.ts';
import type { Session } from '../terminal/session.ts';

export interface CountedUse {
  readonly tokens: number;
  readonly requests: number;
}

/** Returns what one organisation used in one period, across all gateways. */
export type PeriodUse = (organisation: string, period: string) => CountedUse;

/** Reads the topic to its end. Throws `LogUnavailable`, or a `CliError` if the records cannot be authenticated. */
export async function readCounted(session: Session, url: string): Promise<PeriodUse> {
  const state = new CounterState();
  const keep = { keepSeconds: limitTopicKeepSeconds[countersTopic], allowTrimmed: true };
  const topic = await openLog(url, { topic: countersTopic }, keep);
  try {
    const end = await topic.end();
    // Start at the oldest remaining record. The topic may be empty although its end is above 0: records expire after a day.
    let next = await topic.offsetAt(0);
    if (next < end) {
      const mac = createCounterMac(session);
      let accepted = 0;
      for await (const { records, nextOffset } of topic.tail({ from: next, signal: session.signal })) {
        for (const record of records) accepted += merge(state, mac, record);
        next = nextOffset;
        if (next >= end) break;
      }
      if (session.signal.aborted) throw interrupted();
      if (accepted === 0) throw foreignTopicError();
    }
  } finally {
    await topic.close();
  }
  return (organisation, period) => {
    const key = counterKey(organisation, period);
    const all = state.sum(key);
    // Subtract counters that an earlier restore wrote, because this restore writes them again.
    const rows = state.value(rowsReplica, key);
    return { tokens: all.tokens - rows.tokens, requests: all.turns - rows.turns };
  };
}

function merge(state: CounterState, mac: RecordMac, { value, signature, atMs }: LogRecord): 0 | 1 {
  const record = signature !== null && mac.accepts(value, signature) ? readCounterRecord(value) : undefined;
  if (record === undefined) return 0;
  const wallMs = wallClockMs();
  state.apply(record, agreedMs(atMs ?? wallMs, wallMs, record.at));
  return 1;
}

/** Returns an object that checks MACs made with the gateway token or, during a rotation, with the previous one. */
function createCounterMac({ io: { env } }: Session): RecordMac {
  try {
    const token = readSecret('HEADGATE_GATEWAY_TOKEN', env);
    const previous = readSecret('HEADGATE_GATEWAY_TOKEN_PREVIOUS', env);
    if (token !== undefined)
      return new RecordMac(countersTopic, token, ...(previous === undefined ? [] : [previous]));
  } catch (error) {
    if (error instanceof SecretUnusable) throw usageError(error.message);
    throw error;
  }
  throw usageError(
    'the topic of counters at this address has records, which need the gateway token',
    'set HEADGATE_GATEWAY_TOKEN to that of the former gateways',
  );
}

function foreignTopicError(): CliError {
  return new CliError('no record of the topic of counters was written with this gateway token', {
    type: 'Conflict',
    why: 'used-up allowances could be restored, or usage could be counted twice',
    next: `set HEADGATE_GATEWAY_TOKEN to that of the former gateways, or delete the topic ${countersTopic}`,
  });
}
