/**
 * How many runs a property has, and how long a test waits. HEADGATE_TEST_TIER is set by tools/scripts/test.mjs: `fast` is
 * `npm test`, `full` is `npm test -- --all`, `nightly` (`--tenfold`) has ten times the runs of `full`.
 * HEADGATE_TEST_SLOWNESS scales every time-out, for a machine that is slow or busy.
 */
const tier = process.env['HEADGATE_TEST_TIER'] ?? 'fast';
if (!['fast', 'full', 'nightly'].includes(tier)) throw new Error(`HEADGATE_TEST_TIER is ${tier}`);

const slowness = Number(process.env['HEADGATE_TEST_SLOWNESS'] ?? 1);
if (!(slowness > 0)) throw new Error(`HEADGATE_TEST_SLOWNESS is ${process.env['HEADGATE_TEST_SLOWNESS']}`);

/** Runs of a property, or size of a simulation. Each has a share in the fast tier, so that no run goes without it. */
export function runs({ fast, full }: { readonly fast: number; readonly full: number }): number {
  if (tier === 'fast') return fast;
  return tier === 'full' ? full : full * 10;
}

/** A time-out, scaled to the machine. */
export function scaledMs(ms: number): number {
  return ms * slowness;
}
