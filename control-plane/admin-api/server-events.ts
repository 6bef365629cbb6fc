/** Writes server-sent events for the pages of the console. */
import type { ServerResponse } from 'node:http';
import type { FastifyReply } from 'fastify';

/** Maximum number of bytes buffered for a browser that does not read. Above this, the stream is cut off. */
const bufferedBytesMax = 1024 * 1024;

export function beginEvents(reply: FastifyReply): ServerResponse {
  reply.hijack();
  const response = reply.raw;
  // Fastify does not send the headers of a hijacked reply, so copy the ones that hooks have set.
  for (const [name, value] of Object.entries(reply.getHeaders())) response.setHeader(name, value ?? '');
  response.on('error', () => response.destroy());
  response.writeHead(200, {
    'content-type': 'text/event-stream; charset=utf-8',
    'cache-control': 'no-store',
  });
  response.write('retry: 1000\n\n');
  return response;
}

/** Writes one event. `data` is JSON text, or an object that is serialised. */
export function writeEvent(response: ServerResponse, event: string, data: object | string): void {
  if (response.writableEnded) return;
  response.write(`event: ${event}\ndata: ${typeof data === 'string' ? data : JSON.stringify(data)}\n\n`);
  if (response.writableLength > bufferedBytesMax) response.destroy();
}
