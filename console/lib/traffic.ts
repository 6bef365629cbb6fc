/** Reads the traffic of the last hour from the control plane, for the whole fleet or a part of it. */
import { signal } from '@preact/signals';
import type { OperationAnswer, OperationInput } from '../../schemas/admin/admin.ts';
import { type ReadResult, useRead } from './read.ts';
import { moment } from './travel.ts';

export type Traffic = OperationAnswer<'traffic.get'>;
export type TrafficStep = Traffic['steps'][number];
export type TrafficQuery = OperationInput<'traffic.get'>;

const everyMs = 10_000;
const hourSeconds = 3600;

/** Time step under the pointer, shared by all plots of the page. If undefined, the plots show the last step. */
export const pointed = signal<number | undefined>(undefined);

/** Reads live traffic. Reads nothing while the page shows a past state. */
export function useTraffic(of: TrafficQuery): ReadResult<Traffic> {
  return useRead(moment() === undefined ? 'traffic.get' : undefined, of, { everyMs });
}

export interface Hour {
  readonly stepMs: number;
  /** End of the last step, in ms since 1970. */
  readonly untilMs: number;
  /** Traffic in each step, or undefined for a step without traffic. */
  readonly steps: readonly (TrafficStep | undefined)[];
  /** Index of the first step from which the data are complete. */
  readonly firstKnown: number;
}

/** Returns all steps of the hour, with or without traffic. */
export function toHour({ stepSeconds, until, since, steps }: Traffic): Hour {
  const stepMs = stepSeconds * 1000;
  const untilMs = Date.parse(until);
  const count = Math.round(hourSeconds / stepSeconds);
  const placeOf = (ms: number): number => count - 1 - Math.round((untilMs - ms) / stepMs);
  const all = new Array<TrafficStep | undefined>(count).fill(undefined);
  for (const step of steps) all[placeOf(Date.parse(step.at))] = step;
  const sinceMs = Math.ceil(Date.parse(since) / stepMs) * stepMs;
  return { stepMs, untilMs, steps: all, firstKnown: Math.min(count - 1, Math.max(0, placeOf(sinceMs) + 1)) };
}

export interface PlotLine {
  readonly name: string;
  /** Value at each step, or undefined if there is none. */
  readonly values: readonly (number | undefined)[];
}

/** Returns the plot line for a rate. The rate is zero in steps without traffic, and undefined where data are incomplete. */
export function rateLine(name: string, hour: Hour, of: (step: TrafficStep) => number | undefined): PlotLine {
  const values = hour.steps.map((step, at) => {
    if (at < hour.firstKnown) return undefined;
    return step === undefined ? 0 : (of(step) ?? 0);
  });
  return { name, values };
}

type Times = 'firstTokenMs' | 'ownTimeMs';

export function timeLines({ steps }: Hour, of: Times): readonly PlotLine[] {
  return (['p50', 'p95'] as const).map((name) => ({
    name,
    values: steps.map((step) => step?.[of]?.[name]),
  }));
}

const typesMax = 4;

/** Returns one line for each of the most frequent refusal types, and one for all other types together. */
export function refusalLines(hour: Hour): readonly PlotLine[] {
  const sums = new Map<string, number>();
  for (const step of hour.steps)
    for (const [type, rate] of Object.entries(step?.refusedPerSecond ?? {}))
      sums.set(type, (sums.get(type) ?? 0) + rate);
  const types = [...sums].sort(([, a], [, b]) => b - a).map(([type]) => type);
  const apart = types.slice(0, types.length > typesMax ? typesMax - 1 : typesMax);
  const lines = apart.map((type) => rateLine(type, hour, ({ refusedPerSecond }) => refusedPerSecond[type]));
  if (apart.length === types.length) return lines;
  const others = types.slice(apart.length);
  const sumOf = ({ refusedPerSecond }: TrafficStep): number =>
    others.reduce((sum, type) => sum + (refusedPerSecond[type] ?? 0), 0);
  return [...lines, rateLine('other', hour, sumOf)];
}
