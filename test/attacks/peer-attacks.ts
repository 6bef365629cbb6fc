/**
 * Attacks by parties that the fleet trusts to some extent: a node, an agent, a gateway, or someone who can write to the log.
 */
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import Database from 'better-sqlite3';
import WebSocket from 'ws';
import { openStatusLog } from '../../shared/status/status-log.ts';
import { StatusMac } from '../../shared/status/status-mac.ts';
import { usageLogAddress } from '../../shared/usage/usage-log.ts';
import { statusWith } from '../support/process-fleet.ts';
import { until } from '../support/until.ts';
import type { Attack, Stage } from './attack.ts';
import {
  type AttackFleet,
  attacked,
  bystander,
  formerGatewayToken,
  hostileModel,
  hostileNode,
  small,
} from './fleet.ts';
import { claimedTokens } from './hostile-server.ts';
import { aborted, hold, requestTo } from './peers.ts';

async function tokensOf({ operator }: AttackFleet, organisation: string): Promise<number> {
  return (await operator.call('GET', `/usage?organisation=${organisation}`)).totalTokens;
}

function complete(fleet: AttackFleet, model: string, content: unknown): Promise<number> {
  const more = { model, max_tokens: 5, messages: [{ role: 'user', content }] };
  return statusWith(fleet.gateway.ready.api, fleet.key(attacked), more);
}

const lyingNode: Attack = {
  name: 'a node that reports 2000000000 tokens',
  at: 'node',
  run: async ({ fleet }) => {
    const before = await tokensOf(fleet, attacked);
    const status = await complete(fleet, hostileModel, 'hi');
    if (status !== 200) return [`the answer of the node became ${status}`];
    await until(async () => (await tokensOf(fleet, attacked)) > before);
    const billed = (await tokensOf(fleet, attacked)) - before;
    return billed > claimedTokens / 1000 ? [`${billed} tokens were billed`] : [];
  },
};

const fatAgent: Attack = {
  name: 'an agent with 400 invented models in each heartbeat',
  at: 'agents',
  run: async ({ fleet, signal }) => {
    const before = controlLogBytes(fleet);
    const url = `${fleet.plane.ready.admin.replace('http', 'ws')}/nodes/v1/connect`;
    const headers = { authorization: `Bearer ${fleet.hostileNodeToken}` };
    const socket = new WebSocket(url, { headers });
    socket.on('error', () => undefined);
    socket.on('open', () => socket.send(JSON.stringify({ type: 'hello', v: 1, node: hostileNode })));
    for (let heartbeat = 0; !signal.aborted; heartbeat++) {
      const models = Array.from({ length: 400 }, (_, at) =>
        `m${at}-${heartbeat}-${'x"\\'.repeat(60)}`.slice(0, 190),
      );
      if (socket.readyState === WebSocket.OPEN)
        socket.send(JSON.stringify({ type: 'beat', up: true, dialect: 'vllm', models }));
      await Promise.race([pause(1000), aborted(signal)]);
    }
    socket.terminate();
    const grownKiB = Math.round((controlLogBytes(fleet) - before) / 1024);
    return grownKiB > logKiBMax ? [`the control log has grown by ${grownKiB} KiB`] : [];
  },
};
/** Largest allowed growth of the control log, in KiB. It includes the commits for the observer's keys and revocations. */
const logKiBMax = 100;

/**
 * Returns the size of the control log's records in bytes. Other topics are ignored, because they contain the fleet's usual
 * traffic.
 */
function controlLogBytes(fleet: AttackFleet): number {
  const db = new Database(join(fleet.folderOf('log'), 'headgate.control.db'), { readonly: true });
  try {
    return Number(db.prepare('SELECT coalesce(sum(length(value)), 0) FROM record').pluck().get());
  } finally {
    db.close();
  }
}

const forgedUsage: Attack = {
  name: 'rows of usage of no gateway',
  at: 'the usage log',
  run: async ({ fleet, signal }) => {
    const before = await tokensOf(fleet, bystander);
    const incarnation = randomUUID();
    const at = new Date().toISOString();
    const row = (n: number) => ({
      ...{ v: 1, incarnation, n, at, organisation: bystander, period: `${at.slice(0, 8)}01`, draw: 'pool' },
      ...{ model: small, promptTokens: 1_000_000_000, completionTokens: 0, requestId: `forged-${n}` },
    });
    const log = await usageLogAddress(fleet.logUrl).open(0);
    await log.append(Buffer.from(JSON.stringify([row(1), row(2)])));
    await log.close();
    await aborted(signal);
    const billed = (await tokensOf(fleet, bystander)) - before;
    return billed >= 1_000_000_000 ? [`${billed} tokens were billed`] : [];
  },
};

async function report(fleet: AttackFleet, token: string, more: object): Promise<void> {
  const { log: id } = await fleet.operator.call('GET', '/status');
  const value = Buffer.from(
    JSON.stringify({
      ...{ v: 1, name: 'gw-hostile', kind: 'gateway', incarnation: randomUUID(), n: 1, log: id },
      ...{ at: new Date().toISOString(), applied: 1, digest: '0'.repeat(16), foldVersion: 4 },
      ...{ freshSeconds: 0.1, stalePolicy: 'serve', ...more },
    }),
  );
  const log = await openStatusLog(fleet.logUrl);
  await log.append(value, new StatusMac(token).of(value));
  await log.close();
}

/**
 * Reports as a hostile gateway while `work` runs. Then reports that this gateway has ended, so that no later revocation waits
 * for it.
 */
async function withHostileReport(
  { fleet, signal }: Stage,
  token: string,
  more: object,
  work: () => Promise<readonly string[]>,
): Promise<readonly string[]> {
  const incarnation = randomUUID();
  await report(fleet, token, { incarnation, ...more });
  try {
    await Promise.race([pause(1000), aborted(signal)]);
    return await work();
  } finally {
    await report(fleet, token, { incarnation, n: 2, stopped: true, ...more });
  }
}

async function askForDecision({ plane }: AttackFleet, token: string): Promise<void> {
  const path = `/admin/v1/decisions/req_${'0'.repeat(32)}`;
  const headers = { authorization: `Bearer ${token}` };
  await fetch(`${plane.ready.admin}${path}`, { headers }).then((response) => response.text());
}

const stolenToken: Attack = {
  name: 'a report with the former token, and an address that collects bearers',
  at: 'the status log',
  run: (stage) => {
    const { fleet, hostile } = stage;
    const from = hostile.asked.length;
    return withHostileReport(stage, formerGatewayToken, { metrics: hostile.url }, async () => {
      await askForDecision(fleet, String(fleet.env['HEADGATE_OPERATOR_TOKEN']));
      const seen = hostile.asked.slice(from).filter((line) => line.includes(fleet.gatewayToken));
      return seen.length > 0 ? ['the address of the report was sent the present token'] : [];
    });
  },
};

const hostileName: Attack = {
  name: 'a report of a gateway whose name ends lines and clears screens',
  at: 'the status log',
  run: (stage) => {
    const { fleet } = stage;
    const name = 'gw\u001b[2J\u009b31m\n# HELP x y\nx 1\u202e';
    return withHostileReport(stage, fleet.gatewayToken, { name }, async () => {
      const text = await (await fetch(`${fleet.plane.ready.metrics}/metrics`)).text();
      const isRaw = ['\u001b', '\u009b', '\u202e', '\nx 1'].some((part) => text.includes(part));
      return isRaw ? ['/metrics prints the name as it came'] : [];
    });
  },
};

const addresses: Attack = {
  name: 'requests that name addresses',
  at: 'api',
  run: async ({ fleet, hostile }) => {
    const from = hostile.asked.length;
    await complete(fleet, small, [{ type: 'image_url', image_url: { url: `${hostile.url}/image` } }]);
    hostile.redirects = true;
    await complete(fleet, hostileModel, 'redirect').catch(() => undefined);
    hostile.redirects = false;
    const { hostname, port } = new URL(hostile.url);
    const absolute = requestTo(fleet.gateway.ready.api, {
      ...{ method: 'GET', path: `http://${hostname}:${port}/absolute` },
    });
    await hold(fleet.gateway.ready.api, { count: 1, bytes: absolute }, AbortSignal.timeout(500));
    const asked = hostile.asked.slice(from);
    return asked.length > 0 ? [`asked: ${asked.join('; ')}`] : [];
  },
};

const debuggerSignal: Attack = {
  name: 'SIGUSR1 to every process',
  at: 'process',
  run: async ({ fleet, signal }) => {
    for (const { child } of fleet.processes.values()) child.kill('SIGUSR1');
    await aborted(signal);
    return [...fleet.processes].flatMap(([name, { stderr }]) =>
      /debugger listening|inspector/i.test(stderr()) ? [`${name} opened its inspector`] : [],
    );
  },
};

export const peerAttacks: readonly Attack[] = [
  ...[lyingNode, fatAgent, forgedUsage, stolenToken, hostileName, addresses],
  debuggerSignal,
];
