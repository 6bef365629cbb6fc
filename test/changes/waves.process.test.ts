/**
 * Tests that a harmful change is withdrawn automatically under load. Only callers of gateways in its first wave may notice
 * it. The number of refused requests must not exceed what these gateways received before their reports arrived.
 */
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import type { Change } from '../../schemas/events/changes.ts';
import { runs, scaledMs } from '../support/budget.ts';
import { until } from '../support/until.ts';
import { models, nameOf, StagedFleet, SteadyLoad, statusOf } from './staged-fleet.ts';

const gateways = Math.min(runs({ fast: 3, full: 10 }), 10);
/** Number of requests that a change's watch needs before it judges the change. */
const least = 20;
const fleet = new StagedFleet();
beforeAll(() => fleet.open(1, gateways), scaledMs(120_000));
afterAll(() => fleet.close());

test(
  'a change that removes a model in use from its tier is withdrawn automatically after its first wave',
  async () => {
    const load = new SteadyLoad(fleet);
    onTestFinished(() => load.stop());
    const all = () => load.total(() => true);
    await until(() => all() > 10 * gateways);
    const before = all();
    const { id } = await fleet.stage(`waves=one,50%25,all&hold=1h&watch=least=${least}`);
    await until(async () => (await fleet.change(id)).state !== 'open', 90_000);
    const sent = all() - before;
    const { state, wave, reason } = await fleet.change(id);
    expect([state, wave, reason]).toEqual([
      'withdrawn',
      1,
      expect.stringMatching(/refused in the wave, 0\.0% usual$/),
    ]);
    // The last refusals may not have reached their clients yet, so wait for some more responses.
    const first = load.total((gateway) => gateway === nameOf(1));
    await until(() => load.total((gateway) => gateway === nameOf(1)) > first + 10);
    await load.stop();

    const refused = load.total((_, status) => status === 403);
    const elsewhere = load.total((gateway, status) => gateway !== nameOf(1) && status !== 200);
    expect(elsewhere).toBe(0);
    expect(load.total((_, status) => status !== 200 && status !== 403)).toBe(0);
    expect(refused).toBeGreaterThanOrEqual(least);
    // Each client waits for its answers, so every gateway receives about the same share of the requests.
    expect(refused).toBeLessThanOrEqual((1.5 * sent) / gateways);
    // Two reports of about twenty requests each are enough to withdraw the change.
    expect(refused).toBeLessThanOrEqual(10 * least);
    process.stdout.write(`${refused} of ${sent} requests refused by 1 of ${gateways} gateways: ${reason}\n`);
  },
  scaledMs(150_000),
);

test(
  'callers without a key neither withdraw a change nor help it continue',
  async () => {
    const load = new SteadyLoad(fleet);
    onTestFinished(() => load.stop());
    // This change keeps the model that the load asks for.
    const { id } = await fleet.stage(`waves=all&hold=1h&watch=least=${least}`, models.slice(1));
    const [first] = fleet.gateways.values();
    for (let sent = 0; sent < 20 * least; sent++)
      expect(await statusOf(first?.ready.api ?? '', 'nobody')).toBe(401);
    const judged = ({ state, figures }: Change): boolean =>
      state !== 'open' || (figures?.inside.requests ?? 0) >= least;
    await until(async () => judged(await fleet.change(id)), 90_000);
    const { state, figures } = await fleet.change(id);
    expect([state, figures?.inside.refusals]).toEqual(['open', 0]);
  },
  scaledMs(150_000),
);
