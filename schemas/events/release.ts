/**
 * Parses the release settings that people write. The command line also uses this file, so it must not load the schema
 * library.
 */

import { durationMs } from '../durations.ts';
import type { ChangeWatch, ReleaseTexts, Wave } from './changes.ts';

export const holdSecondsMax = 7 * 24 * 3600;

const releaseDefaults = {
  waves: ['one', '10%', '50%', 'all'],
  hold: '5m',
  watch: { refusals: 1, errors: 1, least: 50 },
} as const;

export interface ReleasePlan {
  readonly waves: readonly Wave[];
  readonly holdSeconds: number;
  readonly watch: ChangeWatch;
}

/** Thrown if a release cannot be carried out as requested. */
export class ReleaseFault extends Error {
  override readonly name = 'ReleaseFault';
}

/** Returns the release plan with defaults filled in. `gateways` lists the reporting gateways by name. Throws ReleaseFault. */
export function releasePlan(texts: ReleaseTexts, gateways: readonly string[]): ReleasePlan {
  const { waves = releaseDefaults.waves, hold = releaseDefaults.hold, watch = {} } = texts;
  const { refusals, errors, least } = releaseDefaults.watch;
  const holdSeconds = Math.ceil(durationMs(hold, ['s', 'm', 'h', 'd']) / 1000);
  if (!(holdSeconds >= 1 && holdSeconds <= holdSecondsMax))
    throw new ReleaseFault(`the hold ${hold} must be a duration of up to seven days, such as 30s`);
  const plan: Wave[] = [];
  let share = 0;
  for (const text of waves) {
    if (share === 1) throw new ReleaseFault(`the wave ${text} comes after the wave all`);
    const wave = parseWave(text, gateways);
    if ('share' in wave) {
      if (wave.share <= share) throw new ReleaseFault(`the wave ${text} is not larger than the last one`);
      share = wave.share;
    }
    plan.push(wave);
  }
  return {
    ...{ waves: plan, holdSeconds },
    watch: {
      refusals: watch.refusals ?? refusals,
      errors: watch.errors ?? errors,
      least: watch.least ?? least,
    },
  };
}

function parseWave(text: string, gateways: readonly string[]): Wave {
  if (text === 'all') return { share: 1 };
  const percent = /^(\d{1,3}(?:\.\d{1,3})?)%$/.exec(text)?.[1];
  if (percent !== undefined) {
    if (Number(percent) > 0 && Number(percent) <= 100) return { share: Number(percent) / 100 };
    throw new ReleaseFault(`the wave ${text} must be above 0% and at most 100%`);
  }
  const names = text === 'one' ? gateways.slice(0, 1) : text.split('+');
  if (names.length === 0) throw new ReleaseFault('no gateway reports, so the wave one would be empty');
  const unknown = names.find((name) => name === '' || !gateways.includes(name));
  if (unknown !== undefined)
    throw new ReleaseFault(`the wave ${text} names ${unknown}, which does not report`);
  return { gateways: names };
}

/** Checks the value of each threshold by the same rules as `changeWatchSchema`. */
const watchRules: { readonly [Name in keyof ChangeWatch]: (number: number) => boolean } = {
  refusals: (points) => points >= 0 && points <= 100,
  errors: (count) => Number.isSafeInteger(count) && count >= 1,
  least: (count) => Number.isSafeInteger(count) && count >= 0,
};

/** Parses thresholds such as `refusals=1,errors=1,least=50`, each of which may appear once. Throws ReleaseFault. */
export function parseWatch(text: string): Partial<ChangeWatch> {
  const rules: ReadonlyMap<string, (number: number) => boolean> = new Map(Object.entries(watchRules));
  const parts = text.split(',').map((part) => part.split('='));
  const numbers = parts.map(([name = '', value = '']) => [name, Number(value || 'none')] as const);
  if (
    parts.every(({ length }) => length === 2) &&
    numbers.every(([name, number]) => rules.get(name)?.(number))
  )
    return Object.fromEntries(numbers);
  throw new ReleaseFault(`the watch ${text} must have the form refusals=1,errors=1,least=50`);
}
