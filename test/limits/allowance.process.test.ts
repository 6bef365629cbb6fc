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

test('data folders that are lost or copied count nobody twice', () => foldersAreLostAndCopied(fleet));

test('an older state of a data folder that is brought back counts nobody twice', () =>
  foldersAreBroughtBack(fleet));

test('an allowance runs out on four gateways at once, two of which came late', () => fourShareTheRest(fleet));
