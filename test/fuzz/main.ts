/**
 * The long form of the fuzz targets: `npm run fuzz -- [TARGET] [--seconds N] [--seed S] [--case N]`. Without a target, all
 * targets run in turn. Prints the seed, each fault with its shrunk input, and one summary line per target. Exits with 1 if a
 * fault was found. `--case` repeats one case of a seed and prints its input.
 */
import { parseArgs } from 'node:util';
import { campaign, type Summary } from './campaign.ts';
import { targets } from './targets.ts';

const names = targets.map(({ name }) => name);
const usage = `usage: npm run fuzz -- [TARGET] [--seconds N] [--seed S] [--case N]\nTARGET is one of: ${names.join(', ')}`;

function wrong(message: string): never {
  console.error(`${message}\n${usage}`);
  process.exit(2);
}

function numberOf(text: string | undefined, usual: number): number {
  const number = text === undefined ? usual : Number(text);
  if (!Number.isSafeInteger(number) || number < 0) wrong(`not a whole number: ${text}`);
  return number;
}

function parsed() {
  try {
    const options = {
      seconds: { type: 'string' },
      seed: { type: 'string' },
      case: { type: 'string' },
    } as const;
    return parseArgs({ options, allowPositionals: true });
  } catch (error) {
    return wrong((error as Error).message);
  }
}

function summaryLine(target: string, { cases, seconds, faults, figures }: Summary): string {
  const rate = Math.round(cases / Math.max(seconds, 0.1));
  const more = Object.entries(figures).map(([name, value]) => `, ${value} ${name}`);
  return `${target}: ${cases} cases in ${seconds} s, ${rate}/s, ${faults.length} faults${more.join('')}`;
}

const { values, positionals } = parsed();
const seconds = numberOf(values.seconds, 60);
const seed = numberOf(values.seed, Date.now() % 1_000_000);
const onlyCase = values.case === undefined ? undefined : numberOf(values.case, 0);
for (const name of positionals) if (!names.includes(name)) wrong(`no such target: ${name}`);
if (onlyCase !== undefined && positionals.length !== 1) wrong('--case needs one target');

console.log(`SEED=${seed}`);
const say = (line: string): void => console.log(line);
let found = 0;
for (const target of targets) {
  if (positionals.length > 0 && !positionals.includes(target.name)) continue;
  const summary = await campaign(target, { seed, seconds, onlyCase, say });
  say(summaryLine(target.name, summary));
  found += summary.faults.length;
}
if (found > 0) say(`SEED=${seed}`);
process.exit(found > 0 ? 1 : 0);
