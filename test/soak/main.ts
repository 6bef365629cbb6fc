/**
 * The long soak test (`npm run soak`): SOAK_REQUESTS requests within SOAK_SECONDS, then SOAK_KILLS kills. SEED repeats the
 * clients' choices. Prints progress, then all figures as one line of JSON. Exits with 1 if a figure is wrong.
 */
import { drain } from './drain.ts';
import { clientCount, narrowUnits, SoakFleet } from './fleet.ts';
import { forgottenMsMax, kills } from './kills.ts';
import { mixedLoad } from './mixed-load.ts';

const requests = Number(process.env['SOAK_REQUESTS'] ?? 100_000);
const secondsMax = Number(process.env['SOAK_SECONDS'] ?? 1200);
const killCount = Number(process.env['SOAK_KILLS'] ?? 50);
const seed = Number(process.env['SEED'] ?? Date.now() % 1_000_000);
/** Largest growth of memory after the first third of the requests, in MB. By then, the heap has reached its size. */
const growthMegabytesMax = 40;

const wrong: string[] = [];
function check(holds: boolean, claim: string): void {
  console.log(`${holds ? 'ok   ' : 'WRONG'} ${claim}`);
  if (!holds) wrong.push(claim);
}

function median(values: readonly number[]): number {
  return [...values].sort((one, other) => one - other)[Math.floor(values.length / 2)] ?? Number.NaN;
}

async function soak(fleet: SoakFleet): Promise<object> {
  const say = (progress: string): void => console.log(`      ${progress}`);
  const mixed = await mixedLoad(fleet, { requests, secondsMax, seed, say });
  const rss = mixed.rssMegabytes;
  const third = Math.floor(rss.length / 3);
  const [warm, end] = [median(rss.slice(third, 2 * third)), median(rss.slice(-third))];
  for (const fault of mixed.settled.faults) console.log(`      ${fault}`);
  check(mixed.settled.faults.length === 0, `the accounts of ${mixed.requests} requests agree`);
  check(mixed.inFlightUnits === 0, 'no slot is taken when all requests have ended');
  check(
    mixed.admitted.every((admitted) => admitted === narrowUnits),
    `a tier of ${narrowUnits} at once admits ${narrowUnits}`,
  );
  check(end - warm <= growthMegabytesMax, `memory: ${warm} MB after the warm-up, ${end} MB at the end`);
  const gained = mixed.descriptors[1] - mixed.descriptors[0];
  check(
    gained < 2 * clientCount,
    `${gained} more descriptors than at the start, connections to nodes among them`,
  );
  const killed = await kills(fleet, { kills: killCount, seed, say });
  for (const fault of killed.settled.faults) console.log(`      ${fault}`);
  check(killed.settled.faults.length === 0, `the accounts agree over ${killCount} kills`);
  const [oldest = 0] = killed.missingAgesMs;
  const [ownOldest = 0] = killed.missingOwnAgesMs;
  const newer = killed.missingAgesMs.filter((ageMs) => ageMs <= 10).length;
  check(
    ownOldest <= forgottenMsMax,
    `kills lost ${killed.settled.missing} rows, ${newer} of the last 10 ms, the oldest of ${oldest} ms (${ownOldest} of its own) before`,
  );
  check(
    new Set(killed.totals.map((one) => JSON.stringify(one))).size === 1,
    'every fold has the same totals',
  );
  const billed = Object.entries(killed.totals[0] ?? {}).map(([id, { totalTokens }]) => [id, totalTokens]);
  check(
    JSON.stringify(Object.entries(killed.counted)) === JSON.stringify(billed),
    `limits show counts what was billed: ${JSON.stringify(killed.counted)} tokens`,
  );
  const short = await drain(fleet, 'short');
  check(short.cut === 0 && short.completed === short.streams, 'no stream is cut within the drain time');
  const long = await drain(fleet, 'long');
  check(long.cut === long.streams && long.billed === 0, 'longer streams are cut, and not billed');
  const twice = await drain(fleet, 'twice');
  check(twice.exitCode === 130, `a second signal ends at once (${twice.endedMs} ms)`);
  return { soak: true, seed, mixed, killed, drains: { short, long, twice } };
}

console.log(`SEED=${seed}`);
const fleet = await SoakFleet.start();
try {
  const figures = await soak(fleet);
  console.log(JSON.stringify(figures));
} finally {
  await fleet.close();
}
process.exitCode = wrong.length > 0 ? 1 : 0;
