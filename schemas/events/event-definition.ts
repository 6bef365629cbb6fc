/**
 * Helpers that define an event type: its data, its sentence and a random sample. `shared/snapshot/effects.ts` defines its
 * effect on the state. To change an event, raise its version and add an upcaster. Never change the meaning of an existing
 * version. A new type or version states the first fold version that understands it, which must be raised in the same change.
 */
import type { z } from 'zod';
import type { EventFields } from './event-fields.ts';

/** Data of an event before validation. */
export type EventFieldTexts = Readonly<Record<string, unknown>>;
/** Parts of the sentence that describes an event. The subject is what people search for. The other parts may be empty. */
export type EventWords = readonly [verb: string, subject: string, rest?: string];

type Shape = z.core.$ZodLooseShape;
type Upcaster = (data: Record<string, unknown>) => Record<string, unknown>;

interface EventParts<Data extends Shape> {
  /** Returns the schemas of the event's fields. Code that writes events refuses other fields, and readers ignore them. */
  data(of: EventFields): Data;
  /**
   * Describes the event in words that follow its author, such as `operator` `installed` **echo-small** `on
   * stk-amber-otter-9k2f`. Never throws. For data of other versions, the sentence is shorter.
   */
  sentence(of: EventFieldTexts): EventWords;
  /** Returns random data for the event, from which tests generate histories. */
  sample(draw: SampleDraw): z.input<z.ZodObject<NoInfer<Data>>>;
  readonly version?: number;
  /** Whether a reader that does not know the event must halt. Defaults to true. */
  readonly critical?: boolean;
  /** First fold version that understands this version of the event. Older processes halt at the event or skip it. */
  readonly foldVersion?: number;
  /** Functions that convert old data. `upcasters[n]` converts data of version n to version n + 1 and must be pure. */
  readonly upcasters?: Readonly<Record<number, Upcaster>>;
}

export type EventDefinition<Data extends Shape = Shape> = EventParts<Data> &
  Required<Pick<EventParts<Data>, 'version' | 'critical' | 'foldVersion'>>;

export function event<Data extends Shape>(parts: EventParts<Data>): EventDefinition<Data> {
  return { version: 1, critical: true, foldVersion: 1, ...parts };
}

export type SampleNames =
  | 'organisation'
  | 'person'
  | 'tier'
  | 'model'
  | 'stack'
  | 'node'
  | 'owner'
  | 'period';

/** Random source with only a few names, so that generated events create things that already exist, and remove them again. */
export interface SampleDraw {
  name(kind: SampleNames): string;
  /** Returns about half of the names, selected at random. */
  names(kind: SampleNames): string[];
  oneOf<Value>(values: readonly Value[]): Value;
  /** Returns a random integer from 1 to `max`. */
  upTo(max: number): number;
  chance(share: number): boolean;
  sha256(text: string): string;
}

/** Returns a field as text, or the empty string if it is neither text nor a number. */
export function fieldText(fields: EventFieldTexts, name: string): string {
  const value = fields[name];
  return typeof value === 'string' || typeof value === 'number' ? String(value) : '';
}

/** Returns the preposition `word` and the field's text, or the empty string if the field is missing. */
export function phrase(fields: EventFieldTexts, word: string, name: string): string {
  const value = fieldText(fields, name);
  return value === '' ? '' : `${word} ${value}`;
}

export function toFieldTexts(data: unknown): EventFieldTexts {
  return (typeof data === 'object' && data !== null ? data : {}) as EventFieldTexts;
}
