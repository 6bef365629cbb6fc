/** Serves the counters of all gateways to a gateway that starts without its own copy. */
import { Readable } from 'node:stream';
import type { AdminContext } from './context.ts';
import type { OperationHandlers } from './operations.ts';

type Context = Pick<AdminContext, 'counters'>;

export function counterHandlers({ counters }: Context): OperationHandlers<'counters.get'> {
  return {
    'counters.get': ({ reply }) => reply.type('application/x-ndjson').send(Readable.from(counters.lines())),
  };
}
