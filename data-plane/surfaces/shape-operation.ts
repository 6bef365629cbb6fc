/**
 * The body of an operation becomes a request. Which shape it must have follows from the path alone, never from the stack,
 * so that it reveals nothing of one (design: shape).
 */

import type { Operation } from '../../shared/decision/admission.ts';
import { Refusal } from '../../shared/decision/refusal.ts';
import type { RoutingFacts } from '../../shared/decision/route.ts';
import type { ShapeHeaders } from '../answer/surface.ts';
import type { JsonText } from '../core/json-text.ts';
import type { AskedRequest, WholeAsked } from '../shape/asked.ts';
import { parseBody } from '../shape/json-body.ts';
import { shapeCountTokens } from './messages/shape-messages.ts';
import { type AnswerForm, surfaces } from './surfaces.ts';

/** A request that was understood. */
export interface Shaped {
  /** What limits, routing and counting read, and what a node is sent. */
  readonly asked: AskedRequest;
  /** Undefined where only tokens are counted. */
  readonly form: AnswerForm | undefined;
  readonly surface: RoutingFacts['surface'];
}

/** One whose text is here. */
export interface WholeShaped extends Shaped {
  readonly asked: WholeAsked;
}

/** Throws UnsupportedShapeError naming the JSON path. */
export function shapeOperation(
  { kind }: Operation,
  bytes: Buffer | JsonText,
  headers: ShapeHeaders,
): WholeShaped {
  switch (kind) {
    case 'chat':
    case 'embeddings':
    case 'messages':
    case 'rerank':
    case 'responses': {
      const surface = surfaces[kind];
      const { asked, context } = surface.shape(parseBody(bytes, headers.contentType), headers);
      return { asked, form: { surface: kind, context } as AnswerForm, surface: surface.style };
    }
    case 'count-tokens': {
      const asked = shapeCountTokens(parseBody(bytes, headers.contentType), headers);
      return { asked, form: undefined, surface: surfaces.messages.style };
    }
    case 'models':
    case 'model':
    case 'unknown':
      throw new Refusal('no such path', 'There is nothing at this path.');
    default:
      return kind satisfies never;
  }
}
