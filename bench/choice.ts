/**
 * What it costs to choose one of the nodes that serve a model, by their number: with affinity while they are idle and with two
 * requests in flight at each, and the plain choice of two.
 * Processor time of this process for each choice.
 */
import { Affinity } from '../data-plane/upstream/affinity.ts';
import { NodeLoad } from '../data-plane/upstream/load.ts';
import type { Route } from '../shared/snapshot/lookup.ts';

const sizes = [1, 10, 64, 100, 1000];
const choices = 2000;

function routesOf(count: number): readonly Route[] {
  return Array.from({ length: count }, (_, at) => ({
    ...{ node: `node-${at}`, served: 'm', url: 'http://127.0.0.1:1', dialect: 'vllm' as const },
    ...{ credential: null, windowTokens: null, takesImages: false, reranks: false },
  }));
}

/** Processor time of one call, µs. */
function costOf(call: (at: number) => unknown): number {
  for (let at = 0; at < choices / 10; at += 1) call(at);
  const before = process.cpuUsage();
  for (let at = 0; at < choices; at += 1) call(at);
  const { user, system } = process.cpuUsage(before);
  return Math.round(((user + system) / choices) * 10) / 10;
}

function figuresOf(count: number) {
  const routes = routesOf(count);
  const chooser = (inFlight: number) => {
    const load = new NodeLoad();
    for (const { node } of routes) for (let times = 0; times < inFlight; times += 1) load.begin(node);
    const affinity = new Affinity({ load, secret: 'bench' });
    const choose = (at: number) =>
      affinity.choose(routes, { tenant: 'acme', group: 'pool m', prefixes: [at % 500, at, at + 0.5] });
    return { load, choose };
  };
  const [idle, busy] = [chooser(0), chooser(2)];
  return {
    affinity: costOf(idle.choose),
    'affinity, busy nodes': costOf(busy.choose),
    plain: costOf(() => busy.load.choose(routes)),
  };
}

const figures = Object.fromEntries(sizes.map((count) => [count, figuresOf(count)]));
console.log('µs of processor time a choice, by number of nodes');
console.table(figures);
console.log(JSON.stringify({ bench: 'choice', unit: 'µs', figures }));
