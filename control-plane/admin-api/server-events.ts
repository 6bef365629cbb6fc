/** Server-sent events for the pages. */
import type { ServerResponse } from 'node:http';
import type { FastifyReply } from 'fastify';

/** A browser that does not read is cut off, not buffered for. */
const bufferedBytesMax = 1024 * 1024;

export function beginEvents(reply: FastifyReply): ServerResponse {
  reply.hijack();
  const response = reply.raw;
  // Hijacked: Fastify sends none of the headers that the hooks have set.
  for (const [name, value] of Object.entries(reply.getHeaders())) response.setHeader(name, value ?? '');
  response.on('error', () => response.destroy());
  response.writeHead(200, {
    'content-type': 'text/event-stream; charset=utf-8',
    'cache-control': 'no-store',
  });
  response.write('retry: 1000\n\n');
  return response;
}

/** `data`: JSON, or what it is made of. */
export function writeEvent(response: ServerResponse, event: string, data: object | string): void {
  if (response.writableEnded) return;
  response.write(`event: ${event}\ndata: ${typeof data === 'string' ? data : JSON.stringify(data)}\n\n`);
  if (response.writableLength > bufferedBytesMax) response.destroy();
}
