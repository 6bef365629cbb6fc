/** Builds the request for an operation from its input. */
import {
  type AdminMethod,
  type OperationName,
  operationRoute,
  resolvePath,
} from '../../schemas/admin/admin-routes.ts';
import { AdminError } from './admin-error.ts';

export interface OperationRequest {
  readonly method: AdminMethod;
  readonly path: string;
  /** Input fields that are not part of the path. A GET sends them in the query string, and other methods in the body. */
  readonly rest: Readonly<Record<string, unknown>>;
}

/** Builds the request. Throws an `AdminError` of type `Usage` if a path parameter is not a valid id. */
export function buildRequest(name: OperationName, input: object): OperationRequest {
  const { path, params, rest } = resolvePath(name, input);
  for (const part of Object.values(params)) checkPart(part);
  return { method: operationRoute(name).method, path, rest };
}

function checkPart(part: string): void {
  // Refuse ids that are empty or dots, because URL normalisation would remove them and the request would go to another path.
  if (part === '' || part === '.' || part === '..') throw usage('an id is missing or empty', 'headgate help');
  if (/^(?:[a-z]{2,8}_[A-Za-z0-9]{40}|ngt_[A-Za-z0-9_-]{43})$/.test(part))
    throw usage('this is the value of a key or token, not its id; it was not sent', 'headgate key list');
}

function usage(message: string, next: string): AdminError {
  return new AdminError(message, { type: 'Usage', status: 400, next });
}
