/** Admin API operations that read the present or a past state. */
import { z } from 'zod';
import { fleetSchema } from '../events/fleet.ts';
import { idSchema, modelIdSchema, stackIdSchema, tierIdSchema } from '../names.ts';
import { boundsSchema } from '../shapes.ts';
import {
  anonymousSchema,
  apiKeySchema,
  liveNodeResourceSchema,
  memberSchema,
  modelSchema,
  nodeTokenSchema,
  organisationSchema,
  pageSchema,
  poolSchema,
  stackSchema,
  tierSchema,
} from './admin-resources.ts';
import { definition, type OperationRows, pages, read, readingRoles } from './admin-row.ts';

const byId = z.object({ id: idSchema });

export const readRows = {
  'organisation.list': pages('operator', 'List organisations', { answer: pageSchema(organisationSchema) }),
  'organisation.get': read(readingRoles, 'One organisation', { params: byId, answer: organisationSchema }),
  'member.list': pages(readingRoles, 'List members', { answer: pageSchema(memberSchema) }),
  'tier.list': pages('operator', 'List tiers, lowest first', { answer: pageSchema(tierSchema) }),
  'tier.get': definition('operator', 'One tier', {
    params: z.object({ id: tierIdSchema }),
    answer: tierSchema,
  }),
  'anonymous.get': definition('operator', 'Limits of visitors', { answer: anonymousSchema }),
  'bounds.get': read('operator', 'Bounds for members', { answer: boundsSchema }),
  'model.list': pages('operator', 'List the catalog', { answer: pageSchema(modelSchema) }),
  'model.get': definition('operator', 'One model', {
    params: z.object({ id: modelIdSchema }),
    answer: modelSchema,
  }),
  'key.list': pages(readingRoles, 'List keys, without their values', { answer: pageSchema(apiKeySchema) }),
  'key.get': read(readingRoles, 'One key', { params: byId, answer: apiKeySchema }),
  'stack.list': pages(readingRoles, 'List stacks', { answer: pageSchema(stackSchema) }),
  'stack.get': definition(readingRoles, 'One stack', {
    params: z.object({ id: stackIdSchema }),
    answer: stackSchema,
  }),
  'pool.get': definition('operator', 'The shared pool', { answer: poolSchema }),
  'node.list': pages('operator', 'List nodes', { answer: pageSchema(liveNodeResourceSchema) }),
  'node.get': read('operator', 'One node', { params: byId, answer: liveNodeResourceSchema }),
  'node-token.list': pages('operator', 'Tokens of a node', {
    params: byId,
    answer: pageSchema(nodeTokenSchema),
  }),
  'node-token.get': read('operator', 'One token', { params: byId, answer: nodeTokenSchema }),
  'fleet.get': read('operator', 'The fleet file of this state', { answer: fleetSchema }),
} satisfies OperationRows;
