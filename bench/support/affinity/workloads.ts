/** Who sends which prompts when: five ways in which prompts share prefixes. */
import type { ChatMessage } from '../../../schemas/openai-messages.ts';
import { Random } from './random.ts';

export interface Turn {
  readonly messages: readonly ChatMessage[];
  /** Tokens of the answer. */
  readonly answerTokens: number;
}

/** One conversation: each turn is made when the answer before it is there. */
export interface Session {
  readonly tenant: string;
  /** Of its own, so that its turns do not depend on those of others. */
  readonly random: Random;
  /** Undefined: the conversation is over. */
  next(): Turn | undefined;
  /** Between an answer and the next turn, ms. */
  thinkMs(): number;
}

export interface Workload {
  readonly name: string;
  /** Mean time between two sessions that begin, ms. */
  readonly everyMs: number;
  readonly session: (random: Random) => Session;
}

interface SessionShape {
  readonly tenant: string;
  readonly system: string;
  /** The first message of the user; without it, one like the others. */
  readonly opening?: string;
  readonly turns: number;
  readonly userTokens: readonly [number, number];
  readonly answerTokens: readonly [number, number];
  readonly thinkMs: number;
}

function conversation(random: Random, shape: SessionShape): Session {
  const messages: ChatMessage[] = [{ role: 'system', content: shape.system }];
  let turn = 0;
  return {
    tenant: shape.tenant,
    random,
    thinkMs: () => random.wait(shape.thinkMs),
    next: () => {
      if (turn >= shape.turns) return undefined;
      turn += 1;
      const asked = random.text(random.between(...shape.userTokens));
      const content = turn === 1 && shape.opening !== undefined ? `${shape.opening} ${asked}` : asked;
      messages.push({ role: 'user', content });
      const answerTokens = random.between(...shape.answerTokens);
      const sent = [...messages];
      messages.push({ role: 'assistant', content: random.text(answerTokens) });
      return { messages: sent, answerTokens };
    },
  };
}

function texts(random: Random, count: number, tokens: number): readonly string[] {
  return Array.from({ length: count }, () => random.text(tokens));
}

function pick<Item>(list: readonly Item[], index: number): Item {
  return list[index % list.length] as Item;
}

export function workloads(seed: number): Workload[] {
  const random = new Random(seed);
  const small = texts(random, 40, 300);
  const shared = random.text(4000);
  const documents = texts(random, 400, 3000);
  const harnesses = texts(random, 8, 4000);
  const own = texts(random, 50, 2000);
  const chat = { userTokens: [40, 200], answerTokens: [100, 300], thinkMs: 8000 } as const;
  return [
    {
      name: 'chats',
      everyMs: 250,
      session: (random) => {
        const org = random.between(0, 39);
        const turns = random.between(4, 14);
        return conversation(random, { ...chat, tenant: `org-${org}`, system: pick(small, org), turns });
      },
    },
    {
      name: 'one system prompt',
      everyMs: 80,
      session: (random) =>
        conversation(random, { ...chat, tenant: 'org', system: shared, turns: random.between(1, 4) }),
    },
    {
      name: 'documents',
      everyMs: 35,
      session: (random) => {
        const opening = pick(documents, random.zipf(documents.length));
        const system = pick(small, 0);
        return conversation(random, { ...chat, tenant: 'org', system, opening, turns: 1 });
      },
    },
    {
      name: 'agents',
      everyMs: 700,
      session: (random) => {
        const harness = random.between(0, harnesses.length - 1);
        return conversation(random, {
          tenant: `org-${harness % 4}`,
          system: pick(harnesses, harness),
          turns: random.between(15, 50),
          userTokens: [100, 800],
          answerTokens: [30, 120],
          thinkMs: 1500,
        });
      },
    },
    {
      name: 'hot organisation',
      everyMs: 120,
      session: (random) => {
        const org = random.next() < 0.6 ? 0 : random.between(1, 49);
        const turns = random.between(1, 6);
        return conversation(random, { ...chat, tenant: `org-${org}`, system: pick(own, org), turns });
      },
    },
  ];
}
