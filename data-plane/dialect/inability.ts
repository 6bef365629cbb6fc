/**
 * Some engines say only when they are asked that their model cannot do what a field wants. The same request would fail for
 * ever, so it is refused as one that cannot be carried, by the field's path, as if the dialect had not granted it.
 */

import type { Dialect } from '../../schemas/names.ts';
import type { Refusal } from '../../shared/decision/refusal.ts';
import type { Inability } from '../../shared/engines/dialect.ts';
import { inabilityOf } from '../../shared/engines/node-answers.ts';
import type { AnyChat, AnyEmbeddings, AnyMessages } from '../shape/outline.ts';
import { shapeRefusal } from '../shape/shape-faults.ts';
import { notForThisModel, pathOfImage } from './to-node-body.ts';

type Request = AnyChat | AnyEmbeddings | AnyMessages;
type Path = readonly PropertyKey[];

/** `error`: of the node, as parsed. Undefined where it tells of something else. */
export function inabilityRefusal(request: Request, dialect: Dialect, error: unknown): Refusal | undefined {
  const found = inabilityOf(dialect, error);
  return found && shapeRefusal(pathOf(found, request), notForThisModel);
}

/** In the caller's own body. */
function pathOf(inability: Inability, request: Request): Path {
  if (request.kind === 'embeddings') return [inability === 'dimensions' ? 'dimensions' : 'input'];
  const chat = request.kind === 'messages' ? request.chat : request;
  const { body, needPaths = {} } = chat;
  switch (inability) {
    case 'images':
      return needPaths.images ?? (chat.workerText === undefined ? pathOfImage(chat.body) : ['messages']);
    case 'schema': {
      if (body.response_format?.type !== 'json_schema') return ['tools'];
      return request.kind === 'messages' ? ['output_config', 'format'] : ['response_format'];
    }
    case 'thinking':
      return needPaths.reasoning_effort ?? ['reasoning_effort'];
    case 'dimensions':
      return ['model'];
    default:
      return inability satisfies never;
  }
}
