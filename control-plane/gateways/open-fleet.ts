/** Opens the status topic for a control plane, with the board of live reports and the registry that outlives the reports. */
import { join } from 'node:path';
import type { ControlLog } from '../../shared/log/core/control-log.ts';
import type { Closers } from '../../shared/runtime/closers.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import { openStatusLog } from '../../shared/status/status-log.ts';
import { StatusMac } from '../../shared/status/status-mac.ts';
import { FleetMemory } from './fleet-memory.ts';
import { FleetTraffic } from './fleet-traffic.ts';
import { GatewaysFile } from './gateways-file.ts';
import { StatusBoard } from './status-board.ts';

export interface FleetSettings {
  readonly logUrl: string;
  readonly dataDir: string;
  readonly name: string;
  readonly gatewayToken: string;
  readonly previousGatewayToken?: string | undefined;
  readonly logger: Logger;
}

export interface OpenedFleet {
  readonly statusLog: ControlLog;
  readonly mac: StatusMac;
  readonly board: StatusBoard;
  readonly fleetMemory: FleetMemory;
  readonly traffic: FleetTraffic;
}

/** Returns the tokens whose MACs are accepted: the current one, which also signs, and the previous one during a rotation. */
export function countedTokens({
  gatewayToken,
  previousGatewayToken: previous,
}: Pick<FleetSettings, 'gatewayToken' | 'previousGatewayToken'>): [string, ...string[]] {
  return previous === undefined ? [gatewayToken] : [gatewayToken, previous];
}

/** Opens and starts the board and the registry. Rejects with the errors from opening a log or an SQLite file. */
export async function openFleet(
  settings: FleetSettings,
  closers: Closers,
  now: () => number,
): Promise<OpenedFleet> {
  const { logUrl, dataDir, name, logger } = settings;
  const mac = new StatusMac(...countedTokens(settings));
  const statusLog = await openStatusLog(logUrl);
  closers.add(() => statusLog.close());
  const file = new GatewaysFile(join(dataDir, 'gateways.db'), (error) =>
    logger.error(
      { err: error },
      'gateways.db is corrupt and was quarantined; confirmations no longer wait for gateways that no other replica knows',
    ),
  );
  const traffic = new FleetTraffic(undefined, now);
  const board: StatusBoard = new StatusBoard({
    log: statusLog,
    mac,
    logger,
    onMemory: (ended) => fleetMemory.republishEnded(ended),
    onTraffic: (counted, from, atMs) => traffic.add(counted, from, atMs ?? now()),
  });
  const fleetMemory = new FleetMemory({ name, board, file, log: statusLog, mac, logger });
  closers.add(() => fleetMemory.stop());
  board.start();
  closers.add(() => board.stop());
  fleetMemory.start();
  return { statusLog, mac, board, fleetMemory, traffic };
}
