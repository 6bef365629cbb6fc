/**
 * What a type of event is: its data, its words and an example. What it does to the state is in `shared/snapshot/effects.ts`.
 * To change an event: raise its version and add an up-caster from the version before; never change a meaning in place.
 * A new type or version names the version of the fold that knows it first, which is raised with it.
 */
import type { z } from 'zod';
import type { EventFields } from './event-fields.ts';

/** Data that nobody has checked. */
export type EventFieldTexts = Readonly<Record<string, unknown>>;
/** The subject is what people look for; the parts before and after it may be empty. */
export type EventWords = readonly [verb: string, subject: string, rest?: string];

type Shape = z.core.$ZodLooseShape;
type Upcaster = (data: Record<string, unknown>) => Record<string, unknown>;

interface EventParts<Data extends Shape> {
  /** Its fields. Writers refuse others, readers ignore them. */
  data(of: EventFields): Data;
  /**
   * What it did, in words that follow its author: `operator` `installed` **echo-small** `on stk-amber-otter-9k2f`.
   * Total: data of other versions make a shorter sentence.
   */
  sentence(of: EventFieldTexts): EventWords;
  /** Data of one, for histories at random. */
  sample(draw: SampleDraw): z.input<z.ZodObject<NoInfer<Data>>>;
  readonly version?: number;
  /** Whether a reader that does not know it must halt. It must, unless it is said here. */
  readonly critical?: boolean;
  /** The first version of the fold that knows this version of the event. */
  readonly foldVersion?: number;
  /** `upcasters[n]` turns data of version n into data of version n + 1. Pure. */
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

/** Draws of few names, so that a history at random meets itself: second creations, removals of what is there. */
export interface SampleDraw {
  name(kind: SampleNames): string;
  /** About half of the names. */
  names(kind: SampleNames): string[];
  oneOf<Value>(values: readonly Value[]): Value;
  /** From 1 on. */
  upTo(max: number): number;
  chance(share: number): boolean;
  sha256(text: string): string;
}

/** The text of a field, or nothing. */
export function textOf(fields: EventFieldTexts, name: string): string {
  const value = fields[name];
  return typeof value === 'string' || typeof value === 'number' ? String(value) : '';
}

/** A preposition with the text of a field, or nothing. */
export function phrase(fields: EventFieldTexts, word: string, name: string): string {
  const value = textOf(fields, name);
  return value === '' ? '' : `${word} ${value}`;
}

export function fieldsOf(data: unknown): EventFieldTexts {
  return (typeof data === 'object' && data !== null ? data : {}) as EventFieldTexts;
}
