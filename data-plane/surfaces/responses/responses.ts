/** The surface of POST /v1/responses. */
import type { ClientSurface } from '../../answer/surface.ts';
import { rebuildResponses } from './rebuild-responses.ts';
import { ResponsesStream } from './responses-stream.ts';
import { type ResponsesContext, shapeResponses } from './shape-responses.ts';

export const responses: ClientSurface<ResponsesContext> = {
  style: 'openai',
  shape: shapeResponses,
  whole: rebuildResponses,
  stream: (facts, context, memory) => new ResponsesStream(facts, context, memory),
};
