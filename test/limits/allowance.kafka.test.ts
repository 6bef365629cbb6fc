/** Tests that two and four gateways on Kafka share one monthly token allowance (Limits 4 of the specification). */
import { afterAll, beforeAll, test } from 'vitest';
import { type Kafka, startKafka } from '../kafka/broker.ts';
import { AllowanceFleet, allowanceRunsOut, fourShareTheRest } from './allowance.ts';

let kafka: Kafka;
let fleet: AllowanceFleet;
beforeAll(async () => {
  kafka = await startKafka();
  fleet = await AllowanceFleet.startOn(kafka.url);
});
afterAll(async () => {
  await fleet?.close();
  await kafka?.stop();
});

test('an allowance runs out on both gateways at once, and all sums agree', () => allowanceRunsOut(fleet));

test('an allowance runs out on four gateways at once, two of which joined late', () =>
  fourShareTheRest(fleet));
