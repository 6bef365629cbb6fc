/** Units of time, and parsers for durations and ages that people write. */

export const hourMs = 3_600_000;
export const dayMs = 24 * hourMs;
export const daySeconds = 24 * 3600;

const unitMs = { ms: 1, s: 1000, m: 60_000, h: hourMs, d: dayMs } as const;
type DurationUnit = keyof typeof unitMs;

/** Parses a duration such as `90s` into ms. Returns NaN for other text. With the unit `alone`, `90` means 90 seconds. */
export function durationMs(text: string, units: readonly (DurationUnit | 'alone')[]): number {
  const [, count, unit = 'alone'] = /^(\d{1,7}(?:\.\d+)?)(ms|[smhd])?$/.exec(text) ?? [];
  const known = units.find((each) => each === unit);
  return known === undefined ? Number.NaN : Number(count) * unitMs[known === 'alone' ? 's' : known];
}

export const ageUnits = ['s', 'm', 'h', 'd'] as const;

/** Parses the minimum duration in a filter on requests, such as `500ms`, `2s` or `1m`, into ms. */
export function slowerThanMs(text: string): number {
  return durationMs(text, ['ms', 's', 'm']);
}
