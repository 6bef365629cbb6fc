/**
 * Runs the long chaos scenarios (`npm run chaos -- NAME`). SEED repeats the random choices. Prints progress, then all figures
 * as one line of JSON. Exits with 1 if a promise was broken.
 */
import { brokerKills } from './broker-kills.ts';
import { cutOff } from './cut-off.ts';
import { outage } from './outage.ts';
import { racing } from './racing.ts';
import { usage } from './usage.ts';

const seed = Number(process.env['SEED'] ?? Date.now() % 1_000_000);
const say = (progress: string): void => console.log(`      ${progress}`);

type Figures = object & { readonly faults: readonly string[] };

const scenarios: Readonly<Record<string, () => Promise<Figures>>> = {
  'broker-kills': () => brokerKills({ nodes: 1, kills: count(50), seed, say }),
  'leader-kills': () => brokerKills({ nodes: 3, kills: count(20), seed, say }),
  racing: () =>
    racing({
      freezesMs: [30_000, 30_000, 30_000, 2000, 2000, 2000],
      randomFreezes: 30,
      meddledAppends: count(500),
      forgeries: 20,
      seed,
      say,
    }),
  usage: () => usage({ kills: count(100), seed, say }),
  outage: () => outage({ planeDownMs: 60_000, kafkaDownMs: count(600) * 1000, say }),
  'cut-off': () => cutOff({ how: 'refuse', restartEveryMs: 20_000, frozenMs: 120_000, say }),
  'cut-off-silently': () => cutOff({ how: 'silent', restartEveryMs: 20_000, frozenMs: 120_000, say }),
};

function count(usual: number): number {
  return Number(process.env['CHAOS_COUNT'] ?? usual);
}

const name = process.argv[2] ?? '';
const scenario = scenarios[name];
if (!scenario) {
  console.error(`usage: npm run chaos -- NAME\nNAME is one of: ${Object.keys(scenarios).join(', ')}`);
  process.exit(2);
}
console.log(`SEED=${seed}`);
const figures = await scenario();
for (const fault of figures.faults) console.log(`WRONG ${fault}`);
console.log(JSON.stringify({ chaos: name, seed, ...figures }));
process.exitCode = figures.faults.length > 0 ? 1 : 0;
