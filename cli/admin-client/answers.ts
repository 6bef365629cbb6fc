/**
 * The type of an answer to a call that is sent as text, found by its method and path: `AnswerAt<'GET', '/keys/k1'>` is an ApiKey. It comes
 * from the schemas of the admin API and is not checked at run time.
 */
import type { AdminResponse, AdminRoute } from '../../schemas/admin/admin.ts';

/** A JSON object from the control plane. */
export type Resource = Readonly<Record<string, unknown>>;

/** The objects of a list in an answer; empty where there is no list. */
export function resourcesIn(answer: Resource, member: string): Resource[] {
  const list = answer[member];
  return Array.isArray(list) ? list : [];
}

/** A Resource if no route matches, for example because the path is only known as a string. */
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

/** A `:name` of the pattern matches any segment; other segments are compared. */
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
