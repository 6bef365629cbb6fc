/** The surface of POST /v1/chat/completions. */
import type { ClientSurface } from '../../answer/surface.ts';
import { ChatStream } from './chat-stream.ts';
import { rebuildChat } from './rebuild-chat.ts';
import { type ChatContext, shapeChat } from './shape-chat.ts';

export const chat: ClientSurface<ChatContext> = {
  style: 'openai',
  shape: shapeChat,
  whole: rebuildChat,
  stream: (facts, context) => new ChatStream(facts, context),
};
