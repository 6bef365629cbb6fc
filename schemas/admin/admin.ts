/**
 * The operations of the admin API: what each takes and answers, who may call it, and how. Routes, role checks, the OpenAPI
 * document, clients and the tests of isolation are made from this table; schemas/admin/admin-routes.ts has where each is.
 */
import type { z } from 'zod';
import { activityRows } from './admin-activity.ts';
import { commandRows } from './admin-commands.ts';
import { fleetRows } from './admin-fleet.ts';
import { historyRows } from './admin-history.ts';
import { readRows } from './admin-reads.ts';
import type {
  anonymousSchema,
  apiKeySchema,
  confirmationsSchema,
  fleetChangeSchema,
  gatewayConfirmationSchema,
  gatewayStatusSchema,
  limitUseSchema,
  liveNodeResourceSchema,
  memberSchema,
  modelSchema,
  nodeSchema,
  nodeTokenSchema,
  organisationSchema,
  poolSchema,
  replicaStatusSchema,
  stackSchema,
  tierSchema,
} from './admin-resources.ts';
import type { AdminMethod, adminRoutes, MethodOf, OperationName, PathNames } from './admin-routes.ts';
import type { Many, OperationRow } from './admin-row.ts';
import { signInRows } from './admin-sign-in.ts';

export const adminOperations = {
  ...signInRows,
  ...readRows,
  ...commandRows,
  ...fleetRows,
  ...historyRows,
  ...activityRows,
} as const satisfies Readonly<Record<OperationName, OperationRow>>;

type Rows = typeof adminOperations;
/** What is decided on the state, and becomes events. */
export type CommandName = keyof typeof commandRows;
/** What reads the state alone, of the present or of the past. */
export type StateReadName = keyof typeof readRows;

type Of<Name extends OperationName, Part extends string> =
  Rows[Name] extends Record<Part, infer Schema extends z.ZodType> ? Schema : undefined;
type Read<Schema> = Schema extends z.ZodType ? z.output<Schema> : undefined;
type Given<Schema> = Schema extends z.ZodType ? z.input<Schema> : unknown;

/** The parts of a call as the server has parsed them; undefined: it has no such part. */
export type ParamsOf<Name extends OperationName> = Read<Of<Name, 'params'>>;
export type QueryOf<Name extends OperationName> = Read<Of<Name, 'query'>>;
export type BodyOf<Name extends OperationName> = Read<Of<Name, 'body'>>;
/** Of a stream: one line. Where a command is repeated and its resource was removed since, only ids are in it. */
export type AnswerOf<Name extends OperationName> = Read<Of<Name, 'answer'>>;

/**
 * What a client gives: the parameters of the path and the fields of the body or, where there is none, of the query. Options
 * that all commands have (`why`, `force`) are those of the client.
 */
export type InputOf<Name extends OperationName> = {
  readonly [Param in PathNames<Name>]: string | number;
} & Readonly<MethodOf<Name> extends 'GET' ? Given<Of<Name, 'query'>> : Given<Of<Name, 'body'>>>;

/** Operations that also take many at once. */
export type ManyName = {
  [Name in OperationName]: Rows[Name] extends { readonly many: Many } ? Name : never;
}[OperationName];
/** What a command for many takes. */
export interface ManyOf<Name extends ManyName> {
  readonly items: readonly BodyOf<Name>[];
}

/** The answers by method and path. */
type ByRoute = { readonly [Name in OperationName as (typeof adminRoutes)[Name]]: AnswerOf<Name> };
export type AdminRoute = keyof ByRoute & `${AdminMethod} ${string}`;
export type AdminResponse<Route extends AdminRoute> = ByRoute[Route];

export type Organisation = z.infer<typeof organisationSchema>;
export type Member = z.infer<typeof memberSchema>;
export type Tier = z.infer<typeof tierSchema>;
export type Anonymous = z.infer<typeof anonymousSchema>;
export type Model = z.infer<typeof modelSchema>;
export type ApiKey = z.infer<typeof apiKeySchema>;
export type Stack = z.infer<typeof stackSchema>;
export type Pool = z.infer<typeof poolSchema>;
export type NodeResource = z.infer<typeof nodeSchema>;
export type LiveNodeResource = z.infer<typeof liveNodeResourceSchema>;
export type NodeToken = z.infer<typeof nodeTokenSchema>;
export type FleetChange = z.infer<typeof fleetChangeSchema>;
export type GatewayStatus = z.infer<typeof gatewayStatusSchema>;
export type GatewayConfirmation = z.infer<typeof gatewayConfirmationSchema>;
export type Confirmations = z.infer<typeof confirmationsSchema>;
export type ReplicaStatus = z.infer<typeof replicaStatusSchema>;

export type LimitUse = z.infer<typeof limitUseSchema>;
export type UsageTotals = AnswerOf<'usage.get'>;
