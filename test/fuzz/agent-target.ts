/**
 * Sends hostile agents to a control plane. Their sessions must be refused or ended as the protocol says, and an honest agent
 * that is connected at the same time must always stay up.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { controlPlaneMessageSchema, parseFrame } from '../../schemas/records/node-messages.ts';
import { agentPieces, serverFrames } from './agent-frames.ts';
import type { Note, Target } from './campaign.ts';
import type { Draw } from './draw.ts';
import { drawDelivery, exchange } from './exchange.ts';
import { FuzzFleet } from './fleet.ts';
import { FleetTarget } from './fleet-target.ts';
import { answerFault, readAnswers } from './raw-answers.ts';

const nodeCount = 24;
const watchEveryMs = 1000;

export const agentTarget: Target = {
  name: 'agent',
  start: async () => {
    const nodes = Array.from({ length: nodeCount }, (_, index) => `hostile-${index}`);
    const fleet = await FuzzFleet.start({ agent: true, agentNodes: nodes });
    const tokens = new Map<string, string>();
    for (const node of nodes) {
      const { value } = await fleet.operator.createNodeToken(node);
      tokens.set(node, value);
      fleet.secrets.add(value);
    }
    return new AgentTarget(fleet, tokens);
  },
};

class AgentTarget extends FleetTarget {
  readonly workers = 12;
  readonly #tokens: ReadonlyMap<string, string>;
  readonly #watch: Promise<void>;
  #watching = true;
  #sessions = 0;

  constructor(fleet: FuzzFleet, tokens: ReadonlyMap<string, string>) {
    super(fleet);
    this.#tokens = tokens;
    this.#watch = this.#watchHonest();
  }

  async tryCase(draw: Draw, note: Note): Promise<string[]> {
    const [node, token] = draw.pick([...this.#tokens]);
    const pieces = agentPieces(draw, node, token);
    const { hostname, port } = new URL(this.fleet.plane.started.ready.admin);
    const { end, pauseMs } = drawDelivery(draw, Buffer.from('x'));
    const leaves = end === 'reset' || end === 'destroy';
    const endAfter = leaves ? draw.below(pieces.length + 1) : pieces.length;
    note(
      Buffer.concat([
        Buffer.from(`# ${node}, ${end} after ${endAfter} of ${pieces.length} pieces\n`),
        ...pieces,
      ]),
    );
    const address = { host: hostname, port: Number(port), tls: false };
    const { text } = await exchange(address, { pieces, pauseMs, end, endAfter });
    return this.#faultsOf(text);
  }

  #faultsOf(text: string): string[] {
    const { answers, broken } = readAnswers(text, false);
    const first = answers[0];
    if (first?.status !== 101) {
      const fault = first === undefined ? undefined : answerFault('admin', first);
      return [fault, broken].filter((one) => one !== undefined);
    }
    this.#sessions++;
    const frames = serverFrames(Buffer.from(text.slice(text.indexOf('\r\n\r\n') + 4), 'latin1'));
    if (typeof frames === 'string') return [frames];
    return frames.flatMap(({ opcode, payload }) => {
      if (opcode === 8 || opcode === 9 || opcode === 10) return [];
      if (opcode !== 1) return [`the server sent a frame of kind ${opcode}`];
      const sent = parseFrame(controlPlaneMessageSchema, payload.toString('utf8'));
      return sent === undefined ? ['the server sent a frame that is not of the protocol'] : [];
    });
  }

  /** Records a fault only if two checks in a row find the honest agent down, because a busy machine may delay one check. */
  async #watchHonest(): Promise<void> {
    let down = 0;
    while (this.#watching) {
      const nodes = await this.fleet.operator.nodes().catch(() => undefined);
      const isDown = nodes !== undefined && nodes.find(({ id }) => id === 'agent-1')?.up === false;
      down = isDown ? down + 1 : 0;
      if (down === 2) this.found.push('an honest agent is down next to the hostile ones');
      await pause(watchEveryMs);
    }
  }

  figures(): Record<string, number> {
    return { sessions: this.#sessions };
  }
  override async close(): Promise<void> {
    this.#watching = false;
    await this.#watch;
    await super.close();
  }
}
