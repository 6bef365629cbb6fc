/** Response types by method and path: `AnswerAt<'GET', '/keys/k1'>` is an `ApiKey`. Nothing is checked at run time. */
import type { AdminResponse, AdminRoute } from '../../schemas/admin/admin.ts';

/** A JSON object that the control plane returned. */
export type Resource = Readonly<Record<string, unknown>>;

/** Returns the objects in one of a response's lists, or an empty list if the response does not contain that list. */
export function listMember(answer: Resource, member: string): Resource[] {
  const list = answer[member];
  return Array.isArray(list) ? list : [];
}

/** Response type of a call, or an untyped `Resource` if no route matches, for example because the path is not a literal. */
export type AnswerAt<Method extends string, Path extends string> = [TypedAnswer<Method, Path>] extends [never]
  ? Resource
  : TypedAnswer<Method, Path>;

type TypedAnswer<Method extends string, Path extends string> = {
  [Route in AdminRoute]: Route extends `${Method} ${infer Pattern}`
    ? IsMatch<Segments<Pattern>, Segments<WithoutQuery<Path>>> extends true
      ? AdminResponse<Route>
      : never
    : never;
}[AdminRoute];

type WithoutQuery<Path extends string> = Path extends `${infer Before}?${string}` ? Before : Path;

type Segments<Path extends string> = Path extends `${infer Head}/${infer Rest}`
  ? [Head, ...Segments<Rest>]
  : [Path];

/** Whether the path matches the pattern, in which `:name` matches any segment. */
type IsMatch<Pattern extends string[], Path extends string[]> = Pattern extends [
  infer Expected,
  ...infer PatternRest extends string[],
]
  ? Path extends [infer Given, ...infer PathRest extends string[]]
    ? Expected extends `:${string}`
      ? IsMatch<PatternRest, PathRest>
      : [Given] extends [Expected]
        ? IsMatch<PatternRest, PathRest>
        : false
    : false
  : Path extends []
    ? true
    : false;
