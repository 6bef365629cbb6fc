/** A change that is released in waves: what the log, the fleet file and the admin API have of it. */
import { z } from 'zod';
import { durationMs } from './durations.ts';
import { storedNameSchema } from './names.ts';

/** Gateways by name, or a share of them: a gateway is in it or not by a hash of the change and its name. */
export const waveSchema = z.union([
  z.object({ gateways: z.array(storedNameSchema).min(1).max(1000) }),
  z.object({ share: z.number().gt(0).max(1) }),
]);
export type Wave = z.infer<typeof waveSchema>;

export const wavesMax = 20;
export const holdSecondsMax = 7 * 24 * 3600;

/** What withdraws a change. */
const watchShape = {
  /** By so many percentage points the share of refusals in the wave may be above that outside, and above its own before. */
  refusals: z.number().min(0).max(100),
  /** So many internal errors in the wave. */
  errors: z.int().min(1),
  /** Before so many requests in the wave nothing is concluded from refusals, and no further wave begins. */
  least: z.int().min(0),
};
export const changeWatchSchema = z.object(watchShape);
export type ChangeWatch = z.infer<typeof changeWatchSchema>;

/** An event of a change as it stands in its row, read by its schema before. */
export const stagedEventSchema = z.object({
  type: z.string().min(1).max(64),
  v: z.int().min(1),
  critical: z.boolean(),
  data: z.unknown(),
});

/** Which change gateways have that it has reached, and how far it is. */
export const releaseShape = { change: z.string(), wave: z.int(), waves: z.int() };

/** How a change is released, as people write it: in a fleet file, and as options of a command. */
export const releaseSchema = z.strictObject({
  /** `one`, `10%`, `all`, or names of gateways with + between them. */
  waves: z.array(z.string().min(1).max(2000)).min(1).max(wavesMax).optional(),
  /** `2s`, `5m` or `1h`. */
  hold: z.string().max(20).optional(),
  watch: z.strictObject(watchShape).partial().optional(),
});
export type ReleaseTexts = z.infer<typeof releaseSchema>;

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

/** A release cannot be as it was asked for. */
export class ReleaseFault extends Error {
  override readonly name = 'ReleaseFault';
}

/** `gateways`: those that there are, in the order of their names; `older`: those of builds without changes. Throws ReleaseFault. */
export function releasePlan(
  texts: ReleaseTexts,
  gateways: readonly string[],
  older: ReadonlySet<string> = new Set(),
): ReleasePlan {
  const { waves = releaseDefaults.waves, hold = releaseDefaults.hold, watch = {} } = texts;
  const { refusals, errors, least } = releaseDefaults.watch;
  const holdSeconds = Math.ceil(durationMs(hold, ['s', 'm', 'h', 'd']) / 1000);
  if (!(holdSeconds >= 1 && holdSeconds <= holdSecondsMax))
    throw new ReleaseFault(`the hold ${hold} must be a duration such as 30s or 5m, seven days at most`);
  const plan: Wave[] = [];
  let share = 0;
  for (const text of waves) {
    if (share === 1) throw new ReleaseFault(`the wave ${text} comes after all gateways`);
    const wave = waveFrom(text, gateways, older);
    if ('share' in wave) {
      if (wave.share <= share) throw new ReleaseFault(`the wave ${text} is no larger than one before it`);
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

function waveFrom(text: string, gateways: readonly string[], older: ReadonlySet<string>): Wave {
  if (text === 'all') return { share: 1 };
  const percent = /^(\d{1,3}(?:\.\d{1,3})?)%$/.exec(text)?.[1];
  if (percent !== undefined) {
    if (Number(percent) > 0 && Number(percent) <= 100) return { share: Number(percent) / 100 };
    throw new ReleaseFault(`the wave ${text} must be above 0% and at most 100%`);
  }
  const first = gateways.filter((name) => !older.has(name)).slice(0, 1);
  const names = text === 'one' ? first : text.split('+');
  if (names.length === 0) throw new ReleaseFault('no gateway reports, so there is none for the wave one');
  const unknown = names.find((name) => name === '' || !gateways.includes(name));
  if (unknown !== undefined)
    throw new ReleaseFault(`the wave ${text} names ${unknown}, which is no gateway that reports`);
  const tooOld = names.find((name) => older.has(name));
  if (tooOld !== undefined)
    throw new ReleaseFault(
      `the wave ${text} names ${tooOld}, whose build knows no changes: upgrade it first`,
    );
  return { gateways: names };
}

/** `refusals=1,errors=1,least=50`, each once and none needed. Throws ReleaseFault. */
export function watchFrom(text: string): Partial<ChangeWatch> {
  const parts = text.split(',').map((part) => part.split('='));
  const numbers = Object.fromEntries(parts.map(([name = '', value = '']) => [name, Number(value || 'none')]));
  const parsed = z.strictObject(watchShape).partial().safeParse(numbers);
  if (parsed.success && parts.every(({ length }) => length === 2)) return parsed.data as Partial<ChangeWatch>;
  throw new ReleaseFault(`the watch ${text} must be like refusals=1,errors=1,least=50`);
}

const side = z.object({
  /** How many that report. */
  gateways: z.int(),
  requests: z.int(),
  refusals: z.int(),
  /** InternalErrors. */
  errors: z.int(),
  /** No node could answer, or the answer ended before its end. */
  nodeFailures: z.int(),
  /** What gateways added before a node had the request: 95 of 100 had no more. Absent: no node has had one. */
  ownP95Ms: z.number().optional(),
});
export type ChangeSide = z.infer<typeof side>;

/** A change as the admin API has it. */
export const changeSchema = z.object({
  id: z.string(),
  state: z.enum(['open', 'completed', 'withdrawn']),
  /** So many waves are in it. */
  wave: z.int(),
  waves: z.array(waveSchema),
  holdSeconds: z.int(),
  watch: changeWatchSchema,
  /** Since the present wave began; absent of one that is over. */
  figures: z.object({ inside: side, outside: side }).optional(),
  /** What happens next, and when. */
  next: z.string(),
  /** Why it does not continue by itself, though its hold is over. */
  stuck: z.string().optional(),
  /** Of a withdrawal. */
  reason: z.string().optional(),
  /** Why it cannot be completed any more. */
  impossible: z.string().optional(),
  by: z.string(),
  at: z.string(),
});
export type Change = z.infer<typeof changeSchema>;
