/**
 * Reads and writes events of the control log. Events stay readable forever, so never change the meaning of an existing
 * version. The room `schemas/events` defines everything that the control log and the fleet file contain.
 */
import { z } from 'zod';
import type { EventDefinition } from './event-definition.ts';
import { type EventTypeName, eventDefinitions, eventTypeNames, isEventType } from './event-definitions.ts';
import { eventFields } from './event-fields.ts';

type Shape<Name extends EventTypeName> = ReturnType<(typeof eventDefinitions)[Name]['data']>;
export type EventData<Name extends EventTypeName> = z.infer<z.ZodObject<Shape<Name>>>;

/** Event of a known type, with data of the type's current version. */
export type KnownEvent = {
  [Name in EventTypeName]: { readonly type: Name; readonly data: EventData<Name> };
}[EventTypeName];

export interface StoredEvent {
  readonly type: string;
  readonly v: number;
  readonly critical: boolean;
  readonly data: unknown;
}

const shapes = eventTypeNames.map((type) => [type, eventDefinitions[type].data(eventFields)] as const);
const readers = new Map<string, z.ZodType>(shapes.map(([type, shape]) => [type, z.object(shape)]));
const writers = new Map(shapes.map(([type, shape]) => [type, z.strictObject(shape)]));

/** Returns the strict schema that the data of a new event must satisfy. */
export function writerSchema(type: EventTypeName): z.ZodType {
  return writers.get(type) as z.ZodType;
}

/** Prepares an event for the log. Throws a ZodError if the data violate the schema, which means that this code is faulty. */
export function toStored(known: KnownEvent): StoredEvent {
  const { version, critical } = eventDefinitions[known.type];
  return { type: known.type, v: version, critical, data: writerSchema(known.type).parse(known.data) };
}

/** Returns the oldest fold version that does not halt at this event, or 0 if every version can pass it. */
export function foldVersionNeeded({ type }: KnownEvent): number {
  const { critical, foldVersion } = eventDefinitions[type];
  return critical ? foldVersion : 0;
}

export type ReadEvent =
  | { readonly outcome: 'known'; readonly event: KnownEvent }
  /** This version does not know the event's type or version. */
  | { readonly outcome: 'unknown' }
  /** The type is known, but the data do not match the stated version. */
  | { readonly outcome: 'malformed' };

/** Reads an event and converts its data to the current version of its type. Never throws. */
export function readEvent(stored: StoredEvent): ReadEvent {
  const { type } = stored;
  if (!isEventType(type)) return { outcome: 'unknown' };
  const definition: EventDefinition = eventDefinitions[type];
  if (stored.v > definition.version) return { outcome: 'unknown' };
  let data = stored.data;
  for (let v = stored.v; v < definition.version; v++) {
    const upcast = definition.upcasters?.[v];
    if (!upcast || typeof data !== 'object' || data === null) return { outcome: 'malformed' };
    data = upcast(data as Record<string, unknown>);
  }
  const parsed = (readers.get(type) as z.ZodType).safeParse(data);
  if (!parsed.success) return { outcome: 'malformed' };
  return { outcome: 'known', event: { type, data: parsed.data } as KnownEvent };
}
