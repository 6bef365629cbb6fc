/**
 * Simulated clients that send random requests to random gateways: with valid, revoked and invented keys, to hosts that belong
 * to their organisation or not.
 */
import { type Answer, ask } from './ask.ts';
import { type Fleet, type Member, sharedHost, stackDomain } from './fleet.ts';
import type { Operators } from './operators.ts';
import type { ClientRequest } from './oracle.ts';
import type { Referee } from './referee.ts';
import type { Scheduler } from './scheduler.ts';
import { models, organisations, stacks } from './world.ts';

export interface Exchange {
  readonly request: ClientRequest;
  /** Text of the prompt. No other request has the same text. */
  readonly prompt: string;
  readonly gateway: Member;
  readonly beganMs: number;
  /** Time at which the whole answer had arrived or the connection was lost, in ms. */
  readonly endedMs: number;
  /** The answer, or undefined if the connection was lost before all of it arrived. */
  readonly answer: Answer | undefined;
  /** Whether the client abandoned the request when the answer began to arrive. */
  readonly isAbandoned: boolean;
}

const inventedKey = `hg_${'A'.repeat(40)}`;

export class Clients {
  readonly #scheduler: Scheduler;
  readonly #fleet: Fleet;
  readonly #operators: Operators;
  readonly #referee: Referee;
  #sent = 0;
  #isStopped = false;

  constructor(scheduler: Scheduler, fleet: Fleet, operators: Operators, referee: Referee) {
    this.#scheduler = scheduler;
    this.#fleet = fleet;
    this.#operators = operators;
    this.#referee = referee;
  }

  stop(): void {
    this.#isStopped = true;
  }

  /** Runs one client, which sends a request every `everyMs` on average. */
  async run(everyMs: number): Promise<void> {
    while (!this.#isStopped) {
      await this.#scheduler.sleep(-Math.log(1 - this.#scheduler.random()) * everyMs);
      if (!this.#isStopped) await this.#send(this.#draw());
    }
  }

  #draw(): ClientRequest {
    const scheduler = this.#scheduler;
    const { keys } = this.#operators;
    const active = keys.filter(({ isRevoked }) => !isRevoked);
    const ended = keys.filter(({ isRevoked }) => isRevoked).slice(-2);
    // One organisation is busy, so that it meets its limits.
    const busy = active.filter(({ organisation }) => organisation === organisations[0]);
    const group = scheduler.chance(0.3) ? busy : scheduler.chance(0.75) ? active : ended;
    const known = scheduler.pick(scheduler.chance(0.9) ? group : keys);
    const invented = scheduler.chance(0.5) ? inventedKey : undefined;
    const own = stacks.filter((_, n) => `org-${1 + (n % 2)}` === known?.organisation);
    const isOfStack = scheduler.chance(own.length > 0 ? 0.5 : 0.1);
    return {
      stack: isOfStack ? scheduler.pick(own.length > 0 && scheduler.chance(0.8) ? own : stacks) : undefined,
      key: scheduler.chance(0.95) ? known?.value : invented,
      model: scheduler.chance(0.03) ? 'no-such-model' : scheduler.pick(models),
    };
  }

  async #send(request: ClientRequest): Promise<void> {
    const scheduler = this.#scheduler;
    const gateway = scheduler.pick(this.#fleet.gateways);
    const beganMs = scheduler.nowMs;
    const { stack, key, model } = request;
    const prompt = `prompt-${++this.#sent}.`;
    const content = `say ${scheduler.pick([2, 5, 10])} words about ${prompt}`;
    this.#referee.asked(prompt, request);
    const isAbandoned = scheduler.chance(0.03);
    const answer = await ask({
      port: gateway.port,
      path: '/v1/chat/completions',
      headers: {
        host: stack === undefined ? sharedHost : `${stack}.${stackDomain}`,
        ...(key !== undefined && { authorization: `Bearer ${key}` }),
      },
      body: { model, stream: scheduler.chance(0.5), messages: [{ role: 'user', content }] },
      onBegin: () => isAbandoned,
    });
    const endedMs = scheduler.nowMs;
    this.#referee.onExchange({ request, prompt, gateway, beganMs, endedMs, answer, isAbandoned });
  }
}
