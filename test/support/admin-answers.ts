/** Checks answers of the admin API by the schemas that its routes declare. */
import { expect } from 'vitest';
import { adminErrorSchema, adminResponses, adminStreams } from '../../schemas/admin.ts';

const routes = [...Object.keys(adminResponses), ...Object.keys(adminStreams)];

/** The route of a call, as the tables name it; undefined where there is none. `path` is below the API's prefix. */
function routeOf(method: string, path: string): string | undefined {
  const parts = [method, ...(path.split('?', 1)[0] ?? '').split('/').slice(1)];
  // A literal part is tried before a parameter.
  const candidates = routes.filter((route) => fits(route, parts));
  return candidates.find((route) => !route.includes(':')) ?? candidates[0];
}

function fits(route: string, parts: readonly string[]): boolean {
  const [method = '', path = ''] = route.split(' ');
  const pattern = [method, ...path.split('/').slice(1)];
  return (
    pattern.length === parts.length &&
    pattern.every((part, index) => part.startsWith(':') || part === parts[index])
  );
}

/** Fails unless the JSON of an answer has all fields of its schema, and no others. Returns the name of the route. */
export function checkAnswer(method: string, path: string, status: number, body: unknown): string | undefined {
  const route = routeOf(method, path);
  const declared: Partial<Record<string, { parse(value: unknown): unknown }>> = adminResponses;
  const schema = status >= 400 ? adminErrorSchema : declared[route ?? ''];
  if (schema === undefined) throw new Error(`${method} ${path} declares no answer`);
  expect(schema.parse(body), `${method} ${path}`).toEqual(body);
  return route;
}
