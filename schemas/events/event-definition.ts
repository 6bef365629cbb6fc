/**
 * Defines an event type: its data, its sentence and a random sample. `shared/snapshot/effects.ts` defines its effect on the
 * state. To change an event, raise its version and add an upcaster; never change a meaning in place. A new type or version
 * states the first fold version that understands it, which is raised in the same change.
 */
import type { z } from 'zod';
import type { EventFields } from './event-fields.ts';

/** Unvalidated data of an event. */
export type EventFieldTexts = Readonly<Record<string, unknown>>;
/** Parts of an event's sentence. The subject is the part that people search for. The other parts may be empty. */
export type EventWords = readonly [verb: string, subject: string, rest?: string];

type Shape = z.core.$ZodLooseShape;
type Upcaster = (data: Record<string, unknown>) => Record<string, unknown>;

interface EventParts<Data extends Shape> {
  /** Fields of the event. Writers refuse additional fields, readers ignore them. */
  data(of: EventFields): Data;
  /**
   * Event in words that follow its author: `operator` `installed` **echo-small** `on stk-amber-otter-9k2f`. Never throws.
   * Data of other versions produce a shorter sentence.
   */
  sentence(of: EventFieldTexts): EventWords;
  /** Random data of the event, for generated histories. */
  sample(draw: SampleDraw): z.input<z.ZodObject<NoInfer<Data>>>;
  readonly version?: number;
  /** Whether a reader that does not know the event must halt. Defaults to true. */
  readonly critical?: boolean;
  /** First fold version that understands this version of the event. */
  readonly foldVersion?: number;
  /** `upcasters[n]` converts data of version n to version n + 1. Upcasters are pure. */
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

/** Random source with few names, so that generated events collide: they create existing things again and remove them. */
export interface SampleDraw {
  name(kind: SampleNames): string;
  /** Random selection of about half the names. */
  names(kind: SampleNames): string[];
  oneOf<Value>(values: readonly Value[]): Value;
  /** Random integer from 1 to `max`. */
  upTo(max: number): number;
  chance(share: number): boolean;
  sha256(text: string): string;
}

/** Field as text, or the empty string if it is neither text nor a number. */
export function fieldText(fields: EventFieldTexts, name: string): string {
  const value = fields[name];
  return typeof value === 'string' || typeof value === 'number' ? String(value) : '';
}

/** Preposition followed by the field's text, or the empty string if the field is missing. */
export function phrase(fields: EventFieldTexts, word: string, name: string): string {
  const value = fieldText(fields, name);
  return value === '' ? '' : `${word} ${value}`;
}

export function toFieldTexts(data: unknown): EventFieldTexts {
  return (typeof data === 'object' && data !== null ? data : {}) as EventFieldTexts;
}
