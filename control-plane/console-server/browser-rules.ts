/** Which calls of the console's API cannot come from its own page. */
import type { FastifyRequest } from 'fastify';
import { isJson, isOwnCall, isSafe } from '../../shared/runtime/browser-rules.ts';
import { CommandError } from '../core/command-error.ts';

/** Why a call of the API cannot come from the console's own page; undefined where it can. */
export function foreignCall({ method, headers }: FastifyRequest): CommandError | undefined {
  if (!isOwnCall(method, headers))
    return new CommandError('Forbidden', 'only the console itself may call this');
  return isSafe(method) || isJson(headers)
    ? undefined
    : new CommandError('InvalidCommand', 'a write needs content-type: application/json');
}
