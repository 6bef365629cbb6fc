import { rmSync } from 'node:fs';
import { test } from 'vitest';
import { losesEverything } from './lost-fleet.ts';

test('every key, stack, install and total of a deleted fleet is restored from a backup', () =>
  losesEverything(undefined, ({ logFolder }) => rmSync(logFolder, { recursive: true })));
