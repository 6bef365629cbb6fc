/** The surface of POST /v1/messages. */
import type { ClientSurface } from '../../answer/surface.ts';
import { MessagesStream } from './messages-stream.ts';
import { rebuildMessages } from './rebuild-messages.ts';
import { type MessagesContext, shapeMessages } from './shape-messages.ts';

export const messages: ClientSurface<MessagesContext> = {
  style: 'anthropic',
  shape: shapeMessages,
  whole: rebuildMessages,
  stream: (facts, context, memory) => new MessagesStream(facts, context, memory),
};
