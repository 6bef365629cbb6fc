/**
 * Table of all admin API operations with their inputs, responses and permitted callers. Routes
 * (`schemas/admin/admin-routes.ts`), role checks, the OpenAPI document, clients and isolation tests are built from this
 * table, so an operation without an entry does not exist. The room `schemas/admin` defines the admin API.
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
import type { AdminMethod, adminRoutes, OperationMethod, OperationName, PathNames } from './admin-routes.ts';
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
/** Names of operations that are decided against the current state and recorded as events. */
export type CommandName = keyof typeof commandRows;
/** Names of operations that only read the present or a past state. */
export type StateReadName = keyof typeof readRows;

type OperationPart<Name extends OperationName, Part extends string> =
  Rows[Name] extends Record<Part, infer Schema extends z.ZodType> ? Schema : undefined;
type Read<Schema> = Schema extends z.ZodType ? z.output<Schema> : undefined;
type SchemaInput<Schema> = Schema extends z.ZodType ? z.input<Schema> : unknown;

/** Parts of a call after the server has parsed them. A part that the operation does not have is undefined. */
export type OperationParams<Name extends OperationName> = Read<OperationPart<Name, 'params'>>;
export type OperationQuery<Name extends OperationName> = Read<OperationPart<Name, 'query'>>;
export type OperationBody<Name extends OperationName> = Read<OperationPart<Name, 'body'>>;
/** Response of an operation, or one line of its stream. A repeated command whose resource is gone returns only its ids. */
export type OperationAnswer<Name extends OperationName> = Read<OperationPart<Name, 'answer'>>;

/** Input of an operation, without the options that a client itself adds to every command (`why`, `force`). */
export type OperationInput<Name extends OperationName> = {
  readonly [Param in PathNames<Name>]: string | number;
} & Readonly<
  OperationMethod<Name> extends 'GET'
    ? SchemaInput<OperationPart<Name, 'query'>>
    : SchemaInput<OperationPart<Name, 'body'>>
>;

export type ManyName = {
  [Name in OperationName]: Rows[Name] extends { readonly many: Many } ? Name : never;
}[OperationName];
export interface BulkBody<Name extends ManyName> {
  readonly items: readonly OperationBody<Name>[];
}

/** Maps each method and path to the type of the response. */
type ByRoute = { readonly [Name in OperationName as (typeof adminRoutes)[Name]]: OperationAnswer<Name> };
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
export type UsageTotals = OperationAnswer<'usage.get'>;
