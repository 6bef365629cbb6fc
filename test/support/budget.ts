/**
 * Numbers of runs per property, and time-outs of tests. tools/scripts/test.mjs sets HEADGATE_TEST_TIER: `fast` means `npm
 * test`, `full` means `npm test -- --all`, and `nightly` (`--tenfold`) has ten times as many runs as `full`.
 * HEADGATE_TEST_SLOWNESS scales every time-out, for slow or busy machines.
 */
const tier = process.env['HEADGATE_TEST_TIER'] ?? 'fast';
if (!['fast', 'full', 'nightly'].includes(tier)) throw new Error(`HEADGATE_TEST_TIER is ${tier}`);

const slowness = Number(process.env['HEADGATE_TEST_SLOWNESS'] ?? 1);
if (!(slowness > 0)) throw new Error(`HEADGATE_TEST_SLOWNESS is ${process.env['HEADGATE_TEST_SLOWNESS']}`);

/**
 * Returns the number of runs of a property, or the size of a simulation. The fast tier also runs every property and
 * simulation, but on a smaller scale.
 */
export function runs({ fast, full }: { readonly fast: number; readonly full: number }): number {
  if (tier === 'fast') return fast;
  return tier === 'full' ? full : full * 10;
}

/** Scales a time-out to the speed of the machine. */
export function scaledMs(ms: number): number {
  return ms * slowness;
}
