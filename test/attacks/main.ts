/**
 * The long form of the attacks: `npm run attack -- [TEXT] [--seconds N]`. Runs the attacks whose listener or name contains
 * the text against a real fleet. Prints how long other callers waited, how long a revocation took, peak memory and the
 * longest turn of an event loop. Exits with 1 if an attack caused a fault. The bounds on wall-clock time assume a quiet
 * machine.
 */
import { parseArgs } from 'node:util';
import { type Attack, Observer, type Outcome, runAttack } from './attack.ts';
import { attacks } from './attacks.ts';
import { AttackFleet } from './fleet.ts';
import { HostileServer } from './hostile-server.ts';

const waitMsMax = 300;
/** Longest wait for a revocation, and for a caller that shares a bound with the attack, in ms. */
const longWaitMsMax = 2000;
const extraModels = 2000;

const { values, positionals } = parseArgs({
  options: { seconds: { type: 'string', default: '10' } },
  allowPositionals: true,
});
const seconds = Number(values.seconds);
const chosen = attacks.filter(({ name, at }) => positionals.every((text) => `${at}: ${name}`.includes(text)));
if (!(seconds > 0) || chosen.length === 0) {
  console.error('usage: npm run attack -- [TEXT] [--seconds N]');
  for (const { at, name } of attacks) console.error(`  ${at}: ${name}`);
  process.exit(2);
}

function harmOf({ seen, faults }: Outcome, { mayRefuse = [] }: Attack): string[] {
  const slow = Object.entries(seen).flatMap(([caller, { longestMs }]) => {
    const isBound = caller === 'revocation' || mayRefuse.includes(caller);
    return longestMs > (isBound ? longWaitMsMax : waitMsMax)
      ? [`${caller} waited ${Math.round(longestMs)} ms`]
      : [];
  });
  return [...faults, ...slow];
}

function figuresOf({ seen, residentMiB, turnsMs }: Outcome): string {
  const waits = Object.entries(seen).map(
    ([caller, { longestMs, answers }]) => `${caller} ${Math.round(longestMs)} (${answers})`,
  );
  const most = (figures: Readonly<Record<string, number>>): string =>
    Object.entries(figures)
      .filter(([name]) => name === 'plane' || name === 'gateway-1')
      .map(([name, value]) => `${name} ${value}`)
      .join(', ');
  return `longest waits in ms: ${waits.join(', ')}; peak MiB: ${most(residentMiB)}; turns in ms: ${most(turnsMs)}`;
}

let fleet: AttackFleet | undefined;
let observer: Observer | undefined;
const hostile = await HostileServer.start();
async function stop(): Promise<void> {
  await observer?.close();
  await fleet?.close();
  fleet = undefined;
}
process.once('SIGINT', () => void stop().then(() => process.exit(130)));
let harmful = 0;
for (const attack of chosen) {
  if (fleet === undefined) {
    fleet = await AttackFleet.start({ hostileUrl: hostile.url, extraModels });
    observer = new Observer(fleet);
  }
  if (observer === undefined) break;
  const outcome = await runAttack(attack, { fleet, hostile }, observer, seconds);
  const harm = harmOf(outcome, attack);
  console.log(
    `${harm.length === 0 ? 'held' : 'HARM'}  ${attack.at}: ${attack.name}\n      ${figuresOf(outcome)}`,
  );
  for (const line of harm) console.log(`      ${line}`);
  if (harm.length > 0) harmful++;
  if (outcome.faults.length > 0) await stop();
}
await stop();
await hostile.close();
console.log(`${chosen.length} attacks, ${harmful} did harm`);
process.exit(harmful > 0 ? 1 : 0);
