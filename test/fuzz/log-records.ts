/**
 * Generates records of a control log: a valid chain that also contains junk, forged or mutated commits, and hostile events.
 */
import { eventTypeNames, isEventType } from '../../schemas/events/event-definitions.ts';
import { type StoredEvent, toStored } from '../../schemas/events/events.ts';
import { composeCommit, type Head, judge } from '../../shared/log/core/chain.ts';
import type { LogRecord } from '../../shared/log/core/control-log.ts';
import { randomEvent } from '../support/commits.ts';
import type { Draw, Json } from './draw.ts';
import { canary } from './fleet.ts';
import { mutateBytes, mutateJson } from './mutate.ts';

/** All event types except those that start or change the chain itself, because the chain's own tests cover them. */
const types = eventTypeNames.filter((type) => !type.startsWith('log.'));

function stored(draw: Draw, mayHalt: boolean): StoredEvent {
  const type = draw.pick(types);
  const event = toStored(randomEvent(() => draw.below(2 ** 32) / 2 ** 32, type));
  const changed = draw.weighted<() => StoredEvent>([
    [6, () => event],
    [4, () => ({ ...event, data: mutateJson(draw, event.data as Json, 0.9) })],
    [1, () => ({ ...event, data: draw.json() })],
    [1, () => ({ ...event, v: draw.pick([2, 99, 2 ** 31]) })],
    [1, () => ({ ...event, type: draw.pick(['later.kind', '__proto__', 'toString', '', draw.text()]) })],
  ])();
  // An unknown critical event halts every reader by design, so such events must be rare or not critical.
  const isKnown = isEventType(changed.type) && changed.v <= event.v;
  return isKnown || (mayHalt && draw.chance(0.02)) ? changed : { ...changed, critical: false };
}

function commit(draw: Draw, head: Head, mayHalt: boolean): Buffer {
  const events = draw.list(draw.between(1, 4), () => stored(draw, mayHalt));
  const at = draw.chance(0.9) ? '2026-02-03T04:05:06.000Z' : draw.text();
  return composeCommit({
    head,
    id: `fuzz-${draw.below(2 ** 31)}`,
    at,
    by: draw.chance(0.9) ? 'operator' : draw.text(),
    events,
  });
}

/** Draws a commit with a changed envelope: version, sequence number, links, texts or types. */
function forged(draw: Draw, head: Head): Buffer {
  const envelope = JSON.parse(commit(draw, head, false).toString()) as { readonly [name: string]: Json };
  return Buffer.from(
    draw.weighted<() => string>([
      [3, () => JSON.stringify(mutateJson(draw, envelope, 0.95))],
      [1, () => JSON.stringify({ ...envelope, seq: head.seq + draw.between(-3, 5) })],
      [
        1,
        () => JSON.stringify({ ...envelope, prev: draw.pick(['0'.repeat(64), head.hash.toUpperCase(), '']) }),
      ],
      [1, () => JSON.stringify({ ...envelope, log: draw.pick(['another', '', '__proto__']) })],
      [1, () => JSON.stringify({ ...envelope, v: draw.pick([0, 2, '1', null]) })],
      [1, () => JSON.stringify({ ...envelope, extra: draw.json() })],
      [1, () => JSON.stringify({ ...envelope, id: 'x'.repeat(draw.skewed(100_000)) })],
      [1, () => `${JSON.stringify(envelope)}${draw.pick([' ', '\0', 'x', '\n'])}`],
    ])(),
  );
}

/** Draws the bytes of one record, which may or may not extend the chain after `head`. */
export function recordBytes(draw: Draw, head: Head, mayHalt: boolean): Buffer {
  const bytes = anyRecord(draw, head, mayHalt);
  return !mayHalt && wouldHalt(bytes) ? commit(draw, head, false) : bytes;
}

/** Whether a commit would halt its readers. A mutation can rename a critical event without making the commit invalid. */
function wouldHalt(bytes: Buffer): boolean {
  try {
    const { events } = JSON.parse(bytes.toString()) as { events: { type: string; critical: unknown }[] };
    return events.some(({ type, critical }) => critical === true && !isEventType(type));
  } catch {
    return false;
  }
}

function anyRecord(draw: Draw, head: Head, mayHalt: boolean): Buffer {
  return draw.weighted<() => Buffer>([
    [8, () => commit(draw, head, mayHalt)],
    [3, () => mutateBytes(draw, commit(draw, head, false))],
    [3, () => forged(draw, head)],
    [1, () => draw.bytes(draw.skewed(500))],
    [1, () => Buffer.from(draw.pick(['', 'null', '[]', '{}', '0', canary, '['.repeat(5000)]))],
    [0.2, () => Buffer.alloc(draw.skewed(1_200_000), draw.pick(['a', '{', '"', '\0', '[']))],
  ])();
}

export function signatureOf(draw: Draw): Buffer | null {
  return draw.chance(0.8) ? null : draw.bytes(draw.pick([0, 1, 63, 64, 65, 1000]));
}

/** Draws records after `head`. Each is based on the chain as it is after the previous record. */
export function drawRecords(
  draw: Draw,
  start: Head,
  options: { readonly offset: number; readonly count: number },
): LogRecord[] {
  let head = start;
  return draw.list(options.count, (index) => {
    const record = {
      offset: options.offset + index,
      value: recordBytes(draw, head, true),
      signature: signatureOf(draw),
    };
    const judgement = judge(head, record);
    if ('accepted' in judgement) head = judgement.head;
    return record;
  });
}
