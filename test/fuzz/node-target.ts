/**
 * Fuzzes the gateway with a hostile node. The client must get a refusal, a valid answer or a destroyed connection, and must
 * never see the node's error texts. Afterwards nothing may be in flight.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { type InferenceKind, operations } from '../../schemas/api/operations.ts';
import type { Note, Target } from './campaign.ts';
import { ask } from './client.ts';
import type { Draw } from './draw.ts';
import { canary, FuzzFleet, models, rerankModel, stacks } from './fleet.ts';
import { FleetTarget } from './fleet-target.ts';
import { faultOf } from './good-answers.ts';
import { caseMark, HostileNode } from './hostile-node.ts';
import { drawNodePlan, nodeSecret } from './node-answers.ts';

/** Gauges of ongoing work. Each must return to zero, because every request must release what it took. */
const gauges = ['headgate_limiter_in_flight_units', 'headgate_streams_open'] as const;
const restMs = 20_000;

const asked: { readonly [Kind in InferenceKind]?: { readonly model: string; body(prompt: string): object } } =
  {
    embeddings: { model: 'echo-embed', body: (input) => ({ input }) },
    rerank: {
      model: rerankModel,
      body: (query) => ({ query, documents: ['a', 'b'], return_documents: true }),
    },
  };

/**
 * Finds the node's secret inside the model's output. Mutated bytes may move it there, and the client may see the model's
 * output.
 */
const said = new RegExp(
  `"(?:content|refusal|reasoning(?:_content)?|arguments|name)":"(?:[^"\\\\]|\\\\.)*${nodeSecret}`,
);
function isSaid(answer: Buffer): boolean {
  return said.test(answer.toString('latin1'));
}

interface FuzzRequest {
  readonly operation: InferenceKind;
  readonly stream: boolean;
  readonly model: string;
  readonly usage: boolean;
  /** Time after which the client disconnects, in ms. Undefined if it waits for the answer. */
  readonly leavesMs: number | undefined;
  /** True if the model's output contains the node's secret, so that the client may see it. */
  readonly maySeeSecret: boolean;
}

export const nodeTarget: Target = {
  name: 'node',
  start: async () => {
    const nodes = {
      plain: await HostileNode.start(models),
      reranker: await HostileNode.start([rerankModel], true),
    };
    const [engine, reranker] = [nodes.plain.url, nodes.reranker.url];
    const gatewayArgs = ['--first-event-timeout', '1', '--idle-timeout', '1'];
    try {
      return new NodeTarget(nodes, await FuzzFleet.start({ engine, reranker, gatewayArgs }));
    } catch (error) {
      await closeAll(nodes);
      throw error;
    }
  },
};

type Nodes = Readonly<Record<'plain' | 'reranker', HostileNode>>;

async function closeAll(nodes: Nodes): Promise<void> {
  await Promise.all(Object.values(nodes).map((node) => node.close()));
}

class NodeTarget extends FleetTarget {
  readonly workers = 24;
  readonly #nodes: Nodes;
  #serial = 0;
  #good = 0;
  #cut = 0;

  constructor(nodes: Nodes, fleet: FuzzFleet) {
    super(fleet);
    this.#nodes = nodes;
    fleet.secrets.add(nodeSecret);
  }

  async tryCase(draw: Draw, note: Note): Promise<string[]> {
    const operation = draw.weighted<InferenceKind>([
      [6, 'chat'],
      [4, 'messages'],
      [6, 'responses'],
      [1, 'embeddings'],
      [1, 'rerank'],
      [1, 'count-tokens'],
    ]);
    const stream =
      (operation === 'chat' || operation === 'messages' || operation === 'responses') && draw.chance(0.7);
    const model = asked[operation]?.model ?? 'echo-small';
    const plan = drawNodePlan(draw, { operation, stream, model });
    const usage = stream && operation === 'chat' && draw.chance(0.5);
    const leavesMs = draw.chance(0.12) ? draw.skewed(300) : undefined;
    const described = {
      leavesMs,
      operation,
      stream,
      pauseMs: plan.pauseMs,
      end: plan.end,
      endless: plan.endless?.times,
    };
    note(Buffer.concat([Buffer.from(`# ${JSON.stringify(described)}\n`), ...plan.pieces]));
    const number = this.#serial++;
    const node = operation === 'rerank' ? this.#nodes.reranker : this.#nodes.plain;
    node.plan(number, plan);
    try {
      const maySeeSecret = isSaid(Buffer.concat(plan.pieces));
      return await this.#ask(number, { operation, stream, model, usage, leavesMs, maySeeSecret });
    } finally {
      node.forget(number);
    }
  }

  async #ask(
    number: number,
    { operation, stream, model, usage, leavesMs, maySeeSecret }: FuzzRequest,
  ): Promise<string[]> {
    const prompt = `${canary} ${caseMark(number)}`;
    const more = asked[operation]?.body(prompt) ?? { messages: [{ role: 'user', content: prompt }] };
    const limit = operation === 'messages' ? { max_tokens: 50 } : {};
    const options = { ...(stream && { stream }), ...(usage && { stream_options: { include_usage: true } }) };
    const body = JSON.stringify({ model, ...more, ...limit, ...options });
    const { key, gateway } = this.fleet;
    const headers = { 'content-type': 'application/json', authorization: `Bearer ${key}` };
    const { api, stacks: ports } = gateway.started.ready;
    const isOpenai = operations[operation].surface !== 'anthropic';
    const base = isOpenai ? api : (ports.find(({ stack }) => stack === stacks.anthropic)?.url ?? '');
    const url = `${base.replace(/\/v1$/, '')}${operations[operation].path}`;
    const answer = await ask({ url, headers, body, agent: this.agent, timeoutMs: leavesMs ?? 40_000 });
    if (answer.status === 200 && answer.whole) this.#good++;
    if (!answer.whole) this.#cut++;
    const faults: string[] = [];
    const isCut = leavesMs !== undefined && !answer.whole;
    const fault = isCut && !stream ? undefined : faultOf(answer, { operation, stream });
    if (fault !== undefined) faults.push(fault);
    if (answer.status === 0 && leavesMs === undefined) faults.push('no answer came');
    const seen = JSON.stringify(answer.fields) + answer.body;
    if (!maySeeSecret && seen.includes(nodeSecret))
      faults.push(`the client sees the node's error: ${seen.slice(0, 300)}`);
    if (answer.status !== 200 && seen.includes(canary))
      faults.push(`a refusal holds the prompt: ${seen.slice(0, 300)}`);
    return faults.map((one) => `${operation}${stream ? ' stream' : ''}: ${one}`);
  }

  override async settle(): Promise<void> {
    this.agent.destroy();
    const untilMs = performance.now() + restMs;
    for (const name of gauges) {
      if (!this.fleet.gateway.alive) break;
      let value = await this.fleet.gauge(name);
      while (value !== 0 && performance.now() < untilMs) {
        await pause(200);
        value = await this.fleet.gauge(name);
      }
      if (value !== 0) this.found.push(`${name} is ${value} when nothing is under way`);
    }
    await super.settle();
  }

  figures(): Record<string, number> {
    const { plain, reranker } = this.#nodes;
    return {
      'requests at the node': plain.asked + reranker.asked,
      'good answers': this.#good,
      'answers cut': this.#cut,
    };
  }

  override async close(): Promise<void> {
    await super.close();
    await closeAll(this.#nodes);
  }
}
