/** Checks that answers of the admin API match the schemas that its routes declare. */
import { expect } from 'vitest';
import type { z } from 'zod';
import { adminOperations } from '../../schemas/admin/admin.ts';
import { adminErrorSchema } from '../../schemas/admin/admin-resources.ts';
import { type OperationName, operationNames, operationRoute } from '../../schemas/admin/admin-routes.ts';
import type { OperationRow } from '../../schemas/admin/admin-row.ts';

/** Returns the operation that a call addresses, or undefined if there is none. `path` is relative to the API's prefix. */
function operationOf(method: string, path: string): OperationName | undefined {
  const parts = (path.split('?', 1)[0] ?? '').split('/');
  // A route with literal segments wins over a route with parameters.
  const candidates = operationNames.filter((name) => fits(name, method, parts));
  return candidates.find((name) => !operationRoute(name).path.includes(':')) ?? candidates[0];
}

function fits(name: OperationName, method: string, parts: readonly string[]): boolean {
  const route = operationRoute(name);
  const pattern = route.path.split('/');
  return (
    route.method === method &&
    pattern.length === parts.length &&
    pattern.every((part, index) => part.startsWith(':') || part === parts[index])
  );
}

/** Returns the schema of the answer to a command for one object or, if the body is a list, for several objects. */
function answerOf({ answer, many }: OperationRow, body: unknown): z.ZodType | undefined {
  const isOfMany = many !== undefined && typeof body === 'object' && body !== null && 'items' in body;
  return isOfMany ? many.answer : answer;
}

/** Fails unless the JSON of an answer has exactly the fields of its schema. Returns the name of the operation. */
export function checkAnswer(
  method: string,
  path: string,
  status: number,
  body: unknown,
): OperationName | undefined {
  const name = operationOf(method, path);
  // A staged command is answered with its change.
  const isStaged = new URLSearchParams(path.split('?')[1]).has('stage');
  const answered = isStaged
    ? adminOperations['change.advance'].answer
    : name && answerOf(adminOperations[name], body);
  const schema = status >= 400 ? adminErrorSchema : answered;
  if (schema === undefined) throw new Error(`${method} ${path} declares no answer`);
  expect(schema.parse(body), `${method} ${path}`).toEqual(body);
  return name;
}
