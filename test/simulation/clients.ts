/**
 * Simulated clients that send random requests to random gateways: with valid, revoked and invented keys, to hosts that belong
 * to their organisation or not.
 */
import { type Answer, ask } from './ask.ts';
import { type Fleet, type Member, sharedHost, stackDomain } from './fleet.ts';
import type { Operators } from './operators.ts';
import type { ClientRequest } from './oracle.ts';
import type { Scheduler } from './scheduler.ts';
import { models, stacks } from './world.ts';

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
}

const inventedKey = `hg_${'A'.repeat(40)}`;

export class Clients {
  readonly #scheduler: Scheduler;
  readonly #fleet: Fleet;
  readonly #operators: Operators;
  readonly #onExchange: (exchange: Exchange) => void;
  #sent = 0;
  #isStopped = false;

  constructor(
    scheduler: Scheduler,
    fleet: Fleet,
    operators: Operators,
    onExchange: (exchange: Exchange) => void,
  ) {
    this.#scheduler = scheduler;
    this.#fleet = fleet;
    this.#operators = operators;
    this.#onExchange = onExchange;
  }

  stop(): void {
    this.#isStopped = true;
  }

  /** Runs one client, which sends a request every `everyMs` on average. */
  async run(everyMs: number): Promise<void> {
    while (!this.#isStopped) {
      await this.#scheduler.sleep(-Math.log(1 - this.#scheduler.random()) * everyMs);
      if (!this.#isStopped) await this.send(this.#draw());
    }
  }

  #draw(): ClientRequest {
    const scheduler = this.#scheduler;
    const { keys } = this.#operators;
    const isKnown = keys.length > 0 && scheduler.chance(0.9);
    const invented = scheduler.chance(0.5) ? inventedKey : undefined;
    return {
      stack: scheduler.chance(0.25) ? scheduler.pick(stacks) : undefined,
      key: isKnown ? scheduler.pick(keys).value : invented,
      model: scheduler.chance(0.05) ? 'no-such-model' : scheduler.pick(models),
    };
  }

  async send(request: ClientRequest, gateway = this.#scheduler.pick(this.#fleet.gateways)): Promise<void> {
    const beganMs = this.#scheduler.nowMs;
    const { stack, key, model } = request;
    const prompt = `prompt-${++this.#sent}`;
    const answer = await ask({
      port: gateway.port,
      path: '/v1/chat/completions',
      headers: {
        host: stack === undefined ? sharedHost : `${stack}.${stackDomain}`,
        ...(key !== undefined && { authorization: `Bearer ${key}` }),
      },
      body: { model, messages: [{ role: 'user', content: prompt }] },
    });
    this.#onExchange({ request, prompt, gateway, beganMs, endedMs: this.#scheduler.nowMs, answer });
  }
}
