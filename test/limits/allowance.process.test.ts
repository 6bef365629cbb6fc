/** Tests that two and four gateways on the embedded log share one monthly token allowance (Limits 4 of the specification). */
import { afterAll, beforeAll, test } from 'vitest';
import {
  AllowanceFleet,
  allowanceRunsOut,
  foldersAreBroughtBack,
  foldersAreLostAndCopied,
  fourShareTheRest,
} from './allowance.ts';

let fleet: AllowanceFleet;
beforeAll(async () => {
  fleet = await AllowanceFleet.startOn();
});
afterAll(() => fleet?.close());

test('an allowance runs out on both gateways at once, and all sums agree', () => allowanceRunsOut(fleet));

test('lost or copied data folders count no one twice', () => foldersAreLostAndCopied(fleet));

test('restoring an older state of a data folder counts no one twice', () => foldersAreBroughtBack(fleet));

test('an allowance runs out on four gateways at once, two of which joined late', () =>
  fourShareTheRest(fleet));
