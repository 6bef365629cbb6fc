/**
 * The fleet for tests with clients of the Anthropic-style API. It has one stack for each refusal that a stack can give,
 * behind proxies that count requests. The nodes record the bodies that they receive.
 */
import { once } from 'node:events';
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { sendRefusal } from '../../data-plane/http/answers.ts';
import { mintRequestId } from '../../data-plane/surfaces/common/request-id.ts';
import type { RefusalType } from '../../schemas/api/refusals.ts';
import { causeNames, causes } from '../../shared/decision/causes.ts';
import { Refusal } from '../../shared/decision/refusal.ts';
import { parseBehaviour } from '../simulator/behaviour.ts';
import { serveExchanges } from '../support/exchange-server.ts';
import { startFleet, type TestFleet } from '../support/fleet.ts';
import { specFleet } from '../support/spec-fleet.ts';
import { openWire, type Wire } from './wire.ts';

/** Organisations with their tiers and stacks. The stacks use the Anthropic API, and all except the first serve echo-small. */
const owners = {
  acme: { tier: 'Platinum', stack: 'stk-calm-otter-5c5c' },
  narrow: { tier: 'Narrow', stack: 'stk-narrow-otter-1a1a' },
  slim: { tier: 'Slim', stack: 'stk-slim-otter-2b2b' },
  minutely: { tier: 'Minutely', stack: 'stk-minute-otter-3d3d' },
  /** For tests that count recorded requests, so no other test may use this organisation. */
  lone: { tier: 'Pro', stack: 'stk-lone-otter-5e5e' },
  planless: { tier: null, stack: 'stk-bare-otter-4e4e' },
} as const;

export type Owner = keyof typeof owners;

export interface MessagesFleet {
  readonly fleet: TestFleet;
  /** Proxies in front of the stacks' ports, by organisation. Their URLs do not include `/v1`. */
  readonly wires: Readonly<Record<Owner, Wire>>;
  readonly keys: Readonly<Record<Owner, string>>;
  /** Proxy to a server in front of acme's stack. The server refuses requests after `refuseNext` and forwards all others. */
  readonly refusing: Wire;
  /** Makes the next `times` requests at `refusing` fail with this refusal, whose bytes are the gateway's own. */
  refuseNext(type: RefusalType, times: number): void;
  lastBody(): Record<string, unknown>;
  /** Clears the proxies' records and makes all nodes healthy again. */
  reset(): void;
  close(): Promise<void>;
}

const healthy = parseBehaviour({});

export async function startMessagesFleet(): Promise<MessagesFleet> {
  const names = Object.keys(owners) as Owner[];
  const fleet = await startFleet({
    gateway: {
      whenStale: 'serve',
      stackPorts: names.map((name) => ({ stack: owners[name].stack, port: 0 })),
    },
    recordBodies: true,
    fleet: switchedFleet,
  });
  const portOf = (name: Owner): number =>
    Number(
      new URL(fleet.gateways[0]?.stacks.find(({ stack }) => stack === owners[name].stack)?.url ?? '').port,
    );
  const each = async <T>(make: (name: Owner) => Promise<T>): Promise<Record<Owner, T>> =>
    Object.fromEntries(await Promise.all(names.map(async (name) => [name, await make(name)]))) as Record<
      Owner,
      T
    >;
  const keys = await each(async (name) => (await fleet.key(name)).value);
  await fleet.settle();
  const wires = await each((name) => openWire(portOf(name)));
  const front = await openFront(portOf('acme'));
  const refusing = await openWire(front.port);
  const node = fleet.nodes['acme-s1'];
  return {
    fleet,
    wires,
    keys,
    refusing,
    refuseNext: front.refuseNext,
    lastBody: () => node.stats().bodies.at(-1) as Record<string, unknown>,
    reset: () => {
      for (const wire of [...Object.values(wires), refusing]) wire.restart();
      for (const each of Object.values(fleet.nodes)) each.setBehaviour(healthy);
      front.refuseNext('InternalError', 0);
    },
    close: async () => {
      await Promise.all([...Object.values(wires), refusing].map((wire) => wire.close()));
      await front.close();
      await fleet.close();
    },
  };
}

function switchedFleet(urls: Parameters<typeof specFleet>[0]): ReturnType<typeof specFleet> {
  const base = specFleet(urls);
  const models = ['echo-small'];
  const stackOf = (name: Owner) => ({
    id: owners[name].stack,
    surface: 'anthropic' as const,
    models: name === 'acme' ? ['echo-large'] : models,
    nodes: [
      {
        id: `${name}-switched`,
        url: urls[name === 'acme' ? 'acme-s1' : 'birch-s1'],
        dialect: 'vllm' as const,
      },
    ],
  });
  const others = (Object.keys(owners) as Owner[]).filter((name) => name !== 'acme');
  return {
    ...base,
    tiers: [
      { id: 'Narrow', contextTokens: 2500, models },
      { id: 'Slim', concurrency: 1, models },
      { id: 'Minutely', requestsPerMinute: 1, models },
      ...(base.tiers ?? []),
    ],
    organisations: [
      ...(base.organisations ?? []).map((organisation) =>
        organisation.id === 'acme'
          ? { ...organisation, stacks: [...(organisation.stacks ?? []), stackOf('acme')] }
          : organisation,
      ),
      ...others.map((name) => ({ id: name, name, tier: owners[name].tier, stacks: [stackOf(name)] })),
    ],
  };
}

interface Front {
  readonly port: number;
  refuseNext: MessagesFleet['refuseNext'];
  close(): Promise<void>;
}

function refusalOf(type: RefusalType): Refusal {
  const cause = causeNames.find((name) => causes[name].type === type) ?? 'fault';
  return new Refusal(cause, 'Refused here.');
}

/** Starts a server that refuses requests as planned and forwards all others. */
async function openFront(port: number): Promise<Front> {
  let next: { readonly type: RefusalType; left: number } = { type: 'InternalError', left: 0 };
  const refusing = await serveExchanges((exchange) => {
    const ids = { requestId: mintRequestId(), surface: 'anthropic' } as const;
    sendRefusal(exchange, ids, refusalOf(next.type), '/v1/messages');
    exchange.discardBody();
  });
  const server = createServer((incoming, response) => {
    if (next.left === 0) return handOn(incoming, response, port);
    next.left -= 1;
    handOn(incoming, response, refusing.port);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    refuseNext: (type, times) => {
      next = { type, left: times };
    },
    close: async () => {
      refusing.destroy();
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

function handOn(incoming: IncomingMessage, response: ServerResponse, port: number): void {
  const { method, url: path, headers } = incoming;
  const onward = request({ host: '127.0.0.1', port, method, path, headers }, (answer) => {
    response.writeHead(answer.statusCode ?? 500, answer.headers);
    answer.pipe(response);
  });
  onward.on('error', () => response.destroy());
  incoming.pipe(onward);
}
