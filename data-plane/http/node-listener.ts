/**
 * The listeners of a gateway: from a socket to `handle`, and every refusal that the parser makes itself, in the one
 * envelope. No policy: which host, which key, which node is decided in request/.
 */
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { endWith } from '../../shared/runtime/end-with.ts';
import { createHttpServer, type ParserError } from '../../shared/runtime/http-server.ts';
import { listen, urlOf } from '../../shared/runtime/listener.ts';
import { mintRequestId } from '../core/request-id.ts';
import { pathOfRefused } from './answers.ts';
import {
  type ApiListenerOptions,
  badRequest,
  clientTimeouts,
  type EarlyRefusal,
  type Listener,
  largeHead,
  type OpenedListener,
  rawAnswer,
} from './api-listener.ts';
import { NodeExchange } from './node-exchange.ts';
import { createOwnListener } from './own-listener.ts';

export async function startListener(options: ApiListenerOptions): Promise<Listener> {
  const opened = options.http === 'own' ? createOwnListener(options) : createListener(options);
  const address = await listen(opened.server, options, { bind: '--bind', port: options.flag });
  return { ...opened, url: urlOf(address, options.certificate !== undefined) };
}

function createListener(options: ApiListenerOptions): OpenedListener {
  const { handler, fixed, certificate, connections, name, onRefusal, pace } = options;
  const unreadable = (error: ParserError, socket: Socket): void =>
    onRefusal({ ...refuseGarbage(error, socket), target: fixed });
  const listener = (_request: IncomingMessage, response: ServerResponse): void => {
    handler(new NodeExchange(response), fixed).catch(() => response.destroy());
  };
  const timeouts = { ...clientTimeouts, ...options.timeouts };
  const server = createHttpServer(
    // The handler refuses a bad head in the one envelope, and asks for a body once it has checked the key.
    {
      ...{ name, connections, certificate, ...timeouts, badHttp: 'handler', handlesContinue: true },
      unreadable,
      pace: pace && {
        isExempt: pace.isExempt,
        answer: () => rawAnswer({ requestId: mintRequestId(), refusal: pace.refusal() }),
      },
    },
    listener,
  );
  // Without a listener for it an `Upgrade` header is ignored, as HTTP allows (RFC 9110, 7.8).
  const sockets = trackSockets(server);
  return {
    server,
    stopAccepting: () => {
      server.close();
      server.closeIdleConnections();
    },
    destroy: () => {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}

function trackSockets(server: Server): Set<Socket> {
  const sockets = new Set<Socket>();
  server.on('connection', (socket: Socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
  });
  return sockets;
}

/**
 * Answers what the parser could not read, by the one envelope, and closes; with its path where the first line came with what is
 * wrong. Returns what was answered.
 */
function refuseGarbage(error: ParserError, socket: Socket): EarlyRefusal {
  const refusal = error.code === 'HPE_HEADER_OVERFLOW' ? largeHead() : badRequest();
  const refused = { requestId: mintRequestId(), refusal };
  endWith(socket, rawAnswer(refused, pathOfRefused(error.rawPacket)));
  return refused;
}
