/** Units of time, and how people write a duration or an age. */

export const hourMs = 3_600_000;
export const dayMs = 24 * hourMs;
export const daySeconds = 24 * 3600;

const unitMs = { ms: 1, s: 1000, m: 60_000, h: hourMs, d: dayMs } as const;
type DurationUnit = keyof typeof unitMs;

/** `90s`, or `1.5` without a unit where it may be seconds alone, in ms; NaN for what is not written so, or in another unit. */
export function durationMs(text: string, units: readonly (DurationUnit | 'alone')[]): number {
  const [, count, unit = 'alone'] = /^(\d{1,7}(?:\.\d+)?)(ms|[smhd])?$/.exec(text) ?? [];
  const known = units.find((each) => each === unit);
  return known === undefined ? Number.NaN : Number(count) * unitMs[known === 'alone' ? 's' : known];
}

export const ageUnits = ['s', 'm', 'h', 'd'] as const;

/** ms of a filter by how long a request took: `500ms`, `2s`, `1m`. */
export function slowerThanMs(text: string): number {
  return durationMs(text, ['ms', 's', 'm']);
}
