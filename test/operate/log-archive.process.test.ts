import { join } from 'node:path';
import { test } from 'vitest';
import { fileIn, killedInEachStep } from './log-archive-kills.ts';

test('killed in any step, an embedded log has the same state, and the next run finishes the cut', () =>
  killedInEachStep(
    (dir) => `sqlite:${join(dir, 'log')}`,
    (dir) =>
      [/\.beginning-\d+-\d+\.db\.part$/, /\.beginning-\d+-\d+\.db$/, /\.beginning\.json$/].map((name) =>
        fileIn(dir, 'log', name),
      ),
    1,
  ));
