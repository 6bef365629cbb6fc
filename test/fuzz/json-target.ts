/** Sends JSON bodies to a gateway with a simulated node. Each must get a good answer or a refusal in the envelope. */
import { type InferenceKind, operations } from '../../schemas/api/operations.ts';
import type { Note, Target } from './campaign.ts';
import { ask } from './client.ts';
import type { Draw } from './draw.ts';
import { canary, FuzzFleet, stacks } from './fleet.ts';
import { FleetTarget } from './fleet-target.ts';
import { eventStreamType, faultOf } from './good-answers.ts';
import { bodyText, inferenceKinds } from './json-bodies.ts';

export const jsonTarget: Target = {
  name: 'json',
  start: async () => new JsonTarget(await FuzzFleet.start()),
};

class JsonTarget extends FleetTarget {
  readonly workers = 6;
  #good = 0;

  async tryCase(draw: Draw, note: Note): Promise<string[]> {
    const operation = draw.pick(inferenceKinds);
    const body = bodyText(draw, operation);
    const headers = this.#headers(draw, operation);
    note(JSON.stringify({ operation, headers, body }));
    const answer = await ask({ url: this.#url(operation), headers, body, agent: this.agent });
    if (answer.status === 200) this.#good++;
    if (answer.status === 0) return [`${operation}: no answer came`];
    const stream = answer.fields['content-type'] === eventStreamType;
    const faults: string[] = [];
    const fault = faultOf(answer, { operation, stream });
    if (fault !== undefined) faults.push(fault);
    if (!answer.whole) faults.push('an answer was cut');
    if (answer.status !== 200 && answer.body.includes(canary))
      faults.push(`a refusal holds the prompt: ${answer.body.slice(0, 300)}`);
    return faults.map((one) => `${operation}: ${one}`);
  }

  #headers(draw: Draw, operation: InferenceKind): Record<string, string> {
    const type = draw.weighted<string>([
      [30, 'application/json'],
      [2, 'application/json; charset=utf-8'],
      [
        1,
        draw.pick([
          'text/plain',
          'application/json; charset=utf-16',
          'application/x-www-form-urlencoded',
          '',
        ]),
      ],
    ]);
    const headers = { 'content-type': type, authorization: `Bearer ${this.fleet.key}` };
    if (operations[operation].surface !== 'anthropic') return headers;
    const version = draw.weighted<string>([
      [8, '2023-06-01'],
      [4, '2026-10-21'],
      [1, draw.pick(['', 'x', '2023-06-01, 2023-06-01'])],
    ]);
    return { ...headers, 'anthropic-version': version };
  }

  #url(operation: InferenceKind): string {
    const { api, stacks: ports } = this.fleet.gateway.started.ready;
    const isOpenai = operations[operation].surface !== 'anthropic';
    const base = isOpenai ? api : (ports.find(({ stack }) => stack === stacks.anthropic)?.url ?? '');
    return `${base.replace(/\/v1$/, '')}${operations[operation].path}`;
  }

  figures(): Record<string, number> {
    return { 'good answers': this.#good };
  }
}
