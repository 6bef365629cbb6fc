/** Reads a fleet file from disk. */
import { fleetFileBytesMax, parseFleet } from '../../cli/terminal/fleet-file.ts';
import type { Fleet } from '../../schemas/events/fleet.ts';
import { textOfNamed } from '../../shared/runtime/named-file.ts';

/** Throws an Error whose message lists every fault as FILE:LINE:COL. */
export function parseFleetFile(path: string): Fleet {
  const parsed = parseFleet(textOfNamed(path, 2 * fleetFileBytesMax), path);
  if ('fleet' in parsed) return parsed.fleet;
  const faults = parsed.faults.map(({ line, column, message }) => `${path}:${line}:${column} ${message}`);
  throw new Error(`the fleet file is invalid\n${faults.join('\n')}`);
}
