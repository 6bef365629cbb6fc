/** Limits 4: an allowance over two gateways on Kafka. */
import { afterAll, beforeAll, inject, test } from 'vitest';
import { AllowanceFleet, allowanceRunsOut } from './allowance.ts';

const { url } = inject('kafka');
let fleet: AllowanceFleet;
beforeAll(async () => {
  fleet = await AllowanceFleet.startOn(url);
});
afterAll(() => fleet?.close());

test('an allowance runs out on both gateways at once, and all sums agree', () => allowanceRunsOut(fleet));
