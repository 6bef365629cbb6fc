/**
 * Sends raw HTTP to every listener of a fleet. All processes must survive, and must answer in their envelope or not at all.
 */

import type { ListenerName } from '../../shared/runtime/connections.ts';
import { operatorToken } from '../support/process-fleet.ts';
import type { Note, Target } from './campaign.ts';
import type { Draw } from './draw.ts';
import { type Address, drawDelivery, exchange } from './exchange.ts';
import { canary, engineUrl, FuzzFleet, type GatewayReady, type PlaneReady } from './fleet.ts';
import { FleetTarget } from './fleet-target.ts';
import { connectionBytes } from './http-requests.ts';
import { answerFault, type ListenerKind, readAnswers } from './raw-answers.ts';

interface Listener extends Address {
  readonly name: string;
  readonly kind: ListenerKind;
}

export const httpTarget: Target = {
  name: 'http',
  start: async () => {
    const fleet = await FuzzFleet.start({ tls: true, agent: true });
    return new HttpTarget(fleet);
  },
};

class HttpTarget extends FleetTarget {
  readonly workers = 8;
  readonly #listeners: readonly Listener[];
  #answers = 0;
  #late = 0;

  constructor(fleet: FuzzFleet) {
    super(fleet);
    this.#listeners = listenersOf(fleet);
  }

  async tryCase(draw: Draw, note: Note): Promise<string[]> {
    const listener = draw.pick(this.#listeners);
    const { kind, name } = listener;
    const bytes = connectionBytes(draw, kind, { key: this.fleet.key, operator: operatorToken });
    const delivery = drawDelivery(draw, bytes);
    // Occasionally sends plain bytes to a TLS listener, or TLS to a plain one.
    const address = draw.chance(0.03) ? { ...listener, tls: !listener.tls } : listener;
    const ending = `${delivery.end} after ${delivery.endAfter} of ${delivery.pieces.length} pieces`;
    note(Buffer.concat([Buffer.from(`# ${name}, ${ending}\n`), bytes]));
    const { text, reset, late } = await exchange(address, delivery);
    if (late) this.#late++;
    if (text === '' || address.tls !== listener.tls) return [];
    const { answers, broken } = readAnswers(text, bytes.includes('HEAD'));
    this.#answers += answers.length;
    const faults = answers.map((answer) => answerFault(kind, answer)).filter((fault) => fault !== undefined);
    if (broken !== undefined && kind !== 'engine') faults.push(broken);
    const last = answers.at(-1);
    const isCut = last?.whole === false && last.fields['transfer-encoding'] === undefined;
    if (isCut && !reset && !late && delivery.end === 'half-close') faults.push('an answer was cut');
    // The simulated node echoes the prompt, so a good answer may contain it. A refusal may not.
    const refusals = answers.filter(({ status }) => status >= 400).map(({ body }) => body);
    if (kind !== 'engine' && refusals.some((body) => this.#isLeak(body)))
      faults.push('a refusal holds a secret');
    return faults.map((fault) => `${name}: ${fault}`);
  }

  /** Whether an error message contains a secret. A message may repeat the path, but not a body, key or token. */
  #isLeak(body: string): boolean {
    const message = /"message":"((?:[^"\\]|\\.)*)"/.exec(body)?.[1] ?? '';
    return [canary, operatorToken, this.fleet.key].some((secret) => message.includes(secret));
  }

  figures(): Record<string, number> {
    const slowest = Math.max(...this.fleet.processes.map(({ slowestHealthMs }) => slowestHealthMs));
    return {
      answers: this.#answers,
      'connections without an end': this.#late,
      'ms slowest health': Math.round(slowest),
    };
  }
}

/** Kind of server behind each listener, which determines the form of its answers. `node` belongs to the simulated node. */
const kinds: Readonly<Record<ListenerName, ListenerKind>> = {
  api: 'gateway',
  stack: 'gateway',
  admin: 'admin',
  console: 'console',
  play: 'play',
  node: 'engine',
  metrics: 'health',
};

type AnyReady = Partial<Omit<GatewayReady & PlaneReady, 'metrics'>> & { readonly metrics: string };

function listenersOf(fleet: FuzzFleet): Listener[] {
  return fleet.processes.flatMap(({ name, started }) => {
    const ready = started.ready as AnyReady;
    const engine = name.startsWith('sim-') ? engineUrl({ api: '', ...ready }) : undefined;
    const urls: Readonly<Record<ListenerName, readonly (string | undefined)[]>> = {
      api: [engine === undefined ? ready.api : undefined],
      stack: ready.stacks?.map(({ url }) => url) ?? [],
      admin: [ready.admin],
      console: [ready.console],
      play: [ready.play],
      node: [engine],
      metrics: [ready.metrics === engine ? undefined : ready.metrics],
    };
    return (Object.keys(kinds) as ListenerName[]).flatMap((listener) =>
      urls[listener].flatMap((url) => (url === undefined ? [] : [listenerAt(name, listener, url)])),
    );
  });
}

function listenerAt(process: string, listener: ListenerName, url: string): Listener {
  const { hostname, port, protocol } = new URL(url);
  const kind = kinds[listener];
  return {
    name: `${process} ${listener}`,
    kind,
    host: hostname,
    port: Number(port),
    tls: protocol === 'https:',
  };
}
