/** Simulates one run: the fleet starts, clients and operators use it, faults happen, and at the end everything must agree. */
import { Clients } from './clients.ts';
import { Faults } from './faults.ts';
import { Fleet, type Member } from './fleet.ts';
import type { Journal } from './journal.ts';
import type { Network } from './network.ts';
import { Operators } from './operators.ts';
import { Referee, type Violation } from './referee.ts';
import type { Scheduler } from './scheduler.ts';
import { fleetFile, organisations, planNodes } from './world.ts';

export interface RunOptions {
  readonly scheduler: Scheduler;
  readonly network: Network;
  readonly journal: Journal;
  readonly folder: string;
  readonly minutes: number;
  /** Ids of faults and actions to leave out. */
  readonly without: ReadonlySet<string>;
}

export interface RunResult {
  readonly violation: Violation | undefined;
  readonly counts: object;
  /** Ids of the faults and actions of this run. */
  readonly ids: readonly string[];
}

/** Time at the end of a run without faults, in ms. Everything must converge within this time. */
const calmMs = 30_000;
/** Time at the end of a run without requests, in ms. All usage must be published within this time. */
const quietMs = 5000;

export async function simulate({ minutes, without, ...options }: RunOptions): Promise<RunResult> {
  const { scheduler, journal } = options;
  const endMs = minutes * 60_000;
  const gateways = scheduler.pick([2, 3, 3, 4, 6]);
  const plans = planNodes(scheduler);
  const referee = new Referee(scheduler, journal, gateways);
  const fleet = new Fleet({
    ...options,
    gateways,
    nodes: plans,
    serving: referee,
  });
  fleet.brokers.onRecord = (...record) => referee.onRecord(...record);
  const onUncaught = (owner: Member['process'], error: unknown): void => {
    const { name = 'world' } = owner?.machine ?? {};
    referee.fail('fault', `${name} threw ${error instanceof Error ? error.stack : error}`);
  };
  scheduler.onUncaught = onUncaught;
  process.on('uncaughtException', (error) => onUncaught(scheduler.current, error));
  process.exit = (code) => {
    throw new Error(`it exited with code ${code}`);
  };
  const operators = new Operators(scheduler, fleet, journal);
  operators.onConfirmed = (position) => referee.confirmed(position);
  const faults = new Faults({ scheduler, fleet, referee, journal }, endMs - calmMs, without);
  const clients = new Clients(scheduler, fleet, operators, referee);
  const isCalm = (): boolean => scheduler.nowMs > endMs - calmMs;

  const play = async (): Promise<void> => {
    for (const member of fleet.members) referee.trouble(member.name, 1);
    await Promise.all([...fleet.nodes, ...fleet.controlPlanes].map((member) => fleet.boot(member)));
    await operators.command('fleet.apply', { fleet: fleetFile(plans, (id) => fleet.nodeUrl(id), scheduler) });
    for (const [node, { hasAgent }] of Object.entries(plans))
      if (hasAgent) fleet.tokens.set(node, await operators.createToken(node));
    await Promise.all(fleet.agents.map((member) => fleet.boot(member)));
    for (const organisation of organisations) await operators.createKey(organisation);
    await Promise.all(fleet.gateways.map((member) => fleet.boot(member)));
    for (const member of fleet.members) referee.trouble(member.name, -1);
    for (let client = 0; client < 20; client++) void clients.run(3000);
    for (let operator = 1; operator <= 3; operator++) void operators.run(operator, isCalm, without);
  };
  scheduler.after(0, () => void play().then(() => faults.run()));
  scheduler.after(endMs - quietMs, () => clients.stop(), scheduler.world);
  const isDone = (): boolean => referee.violation !== undefined;
  await scheduler.run(endMs, isDone);
  const reporting = [...fleet.controlPlanes, ...fleet.gateways].map(({ name }) => name);
  if (!isDone()) referee.atEnd(operators.commands, reporting);
  const { events } = scheduler;
  const counts = { events, ...referee.counts, faults: faults.counts };
  return { violation: referee.violation, counts, ids: [...faults.ids, ...operators.actions] };
}
