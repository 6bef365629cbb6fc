/**
 * Checks that commands that can change answers are sent only from places that show their effect. `call` does not accept them.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';

test('every part of the console that can send such a command shows its effect', () => {
  const giving = readdirSync('console', { recursive: true, encoding: 'utf8' })
    .filter((path) => /\.tsx?$/.test(path) && path !== 'lib/api.ts')
    .map((path) => ({ path, text: readFileSync(`console/${path}`, 'utf8') }))
    .filter(({ text }) => text.includes('callShown('));
  expect(giving.map(({ path }) => path).sort()).toEqual(['pages/credentials-settings.tsx', 'ui/effect.tsx']);
  for (const { path, text } of giving) {
    const name = /callShown\('([^']+)/.exec(text)?.[1];
    const shown = name === undefined ? '<EffectOf {...command} ' : `<EffectOf name="${name}"`;
    expect(text.split('callShown(')).toHaveLength(2);
    expect(text.includes(shown), path).toBe(true);
  }
});
