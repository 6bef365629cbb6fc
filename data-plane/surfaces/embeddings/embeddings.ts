/** The surface of POST /v1/embeddings. */
import type { ClientSurface } from '../../answer/surface.ts';
import { rebuildEmbeddings } from './rebuild-embeddings.ts';
import { type EmbeddingsContext, shapeEmbeddings } from './shape-embeddings.ts';

export const embeddings: ClientSurface<EmbeddingsContext> = {
  style: 'any',
  shape: shapeEmbeddings,
  whole: rebuildEmbeddings,
  stream: undefined,
};
