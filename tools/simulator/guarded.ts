/** Keeps a fault of one exchange from ending the simulated node. */
import type { ServerResponse } from 'node:http';

/** Runs a step of an exchange; where it throws, the exchange ends with 500, or is cut if it has begun. */
export function guarded(response: ServerResponse, step: () => void): void {
  try {
    step();
  } catch {
    if (response.headersSent || response.destroyed) response.destroy();
    else response.writeHead(500).end();
  }
}
