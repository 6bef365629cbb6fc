/** Prevents an error in one request from ending the simulated node. */
import type { ServerResponse } from 'node:http';

/** Runs a step of a response. If it throws, responds with 500, or destroys the connection if the response has begun. */
export function guarded(response: ServerResponse, step: () => void): void {
  try {
    step();
  } catch {
    if (response.headersSent || response.destroyed) response.destroy();
    else response.writeHead(500).end();
  }
}
