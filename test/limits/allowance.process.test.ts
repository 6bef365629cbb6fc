/** Limits 4: an allowance over two gateways on the embedded log. */
import { afterAll, beforeAll, test } from 'vitest';
import { AllowanceFleet, allowanceRunsOut, foldersAreLostAndCopied } from './allowance.ts';

let fleet: AllowanceFleet;
beforeAll(async () => {
  fleet = await AllowanceFleet.startOn();
});
afterAll(() => fleet?.close());

test('an allowance runs out on both gateways at once, and all sums agree', () => allowanceRunsOut(fleet));

test('data folders that are lost or copied count nobody twice', () => foldersAreLostAndCopied(fleet));
