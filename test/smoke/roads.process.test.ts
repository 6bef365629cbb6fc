import { test } from 'vitest';
import { bothRoads } from './roads.ts';

test('on an embedded log a request is answered and an event takes effect, even after kill -9 and garbage', () =>
  bothRoads());
