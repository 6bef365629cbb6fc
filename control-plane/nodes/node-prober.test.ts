import { expect, test } from 'vitest';
import { startFleet } from '../../test/support/fleet.ts';
import { specFleet } from '../../test/support/spec-fleet.ts';

test('probing many nodes causes no runtime warning', async () => {
  const warnings: string[] = [];
  const note = (warning: Error): void => {
    warnings.push(warning.message);
  };
  process.on('warning', note);
  const fleet = await startFleet({
    fleet: (urls) => {
      const spec = specFleet(urls);
      const nodes = Array.from({ length: 20 }, (_, index) => ({
        id: `one-of-many-${index}`,
        url: urls['pool-1'],
        dialect: 'vllm' as const,
      }));
      return { ...spec, pool: { models: spec.pool?.models ?? [], nodes } };
    },
  });
  await fleet.close();
  process.off('warning', note);
  expect(warnings).toEqual([]);
});
