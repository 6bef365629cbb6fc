/** The surface of POST /v1/rerank. */
import type { ClientSurface } from '../../answer/surface.ts';
import { rebuildRerank } from './rebuild-rerank.ts';
import { type RerankContext, shapeRerank } from './shape-rerank.ts';

export const rerank: ClientSurface<RerankContext> = {
  style: 'openai',
  shape: shapeRerank,
  whole: rebuildRerank,
  stream: undefined,
};
