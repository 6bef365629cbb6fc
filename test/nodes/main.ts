// The long form of the swarm test (`npm run soak:agents`): SOAK_AGENTS agents (500 by default) on two control planes. Exits
// with 1 if a promise was broken.
import { swarm } from './swarm.ts';

const agents = Number(process.env['SOAK_AGENTS'] ?? 500);
const figures = await swarm({ agents, doomed: 10, quietSeconds: 15 });
const { owned, reported, down, doomed } = figures;
const promises: readonly (readonly [string, boolean])[] = [
  [`all ${agents} attached, in ${figures.attachCommits} commits`, owned[0] + owned[1] === agents],
  ['no commit while they send only heartbeats', figures.quietCommits === 0],
  [`the others reported elsewhere after ${figures.reattachedMs} ms`, figures.reattachedMs < 10_000],
  [`the ten that died were down after ${figures.downMs} ms`, figures.downMs < 15_000],
  ['they, and only they', JSON.stringify(down) === JSON.stringify(doomed) && reported.down === doomed.length],
  [
    `each node of the dead replica changed hands once: ${reported.joined} of ${owned[0]}, in ${reported.commits} commits`,
    reported.joined === owned[0] && figures.joinedTwice === 0 && reported.up === 0,
  ],
];
for (const [what, kept] of promises) console.log(`${kept ? 'ok    ' : 'WRONG '}${what}`);
console.log(JSON.stringify(figures));
process.exitCode = promises.every(([, kept]) => kept) ? 0 : 1;
