// A file of its own, because it waits for more than a minute while others run.
import { expect, test } from 'vitest';
import { cutOff } from './cut-off.ts';

test('Limits: a revoked key is refused by every gateway within 60 s, cut off, started without the log or frozen', async () => {
  // The time until it is back is generous: the machine does other things, too.
  const options = { restartEveryMs: 20_000, frozenMs: 47_000, backSecondsMax: 20 } as const;
  const figures = await cutOff({ how: 'silent', ...options });
  process.stdout.write(`${JSON.stringify(figures)}\n`);
  expect(figures.faults).toEqual([]);
});
