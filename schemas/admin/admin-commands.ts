/** Admin API commands: operations that are decided against the current state and recorded as events. */
import { z } from 'zod';
import { changeSchema } from '../events/changes.ts';
import { boundsSchema } from '../shapes.ts';
import { usageAdjustmentSchema } from './admin-activity.ts';
import {
  anonymousSchema,
  apiKeySchema,
  commandOutcomeShape,
  createdKeysSchema,
  createdTokensSchema,
  fleetChangeSchema,
  memberSchema,
  modelSchema,
  nodeSchema,
  nodeTokenSchema,
  organisationSchema,
  poolSchema,
  removed,
  removedMember,
  signersAfter,
  stackSchema,
  tierSchema,
  withSecret,
  written,
} from './admin-resources.ts';
import { divisibleQuerySchema, keyRoles, managingRoles, type OperationRows, operation } from './admin-row.ts';
import { bodySchemas, madeAtOnceMax, pathSchemas } from './commands.ts';

export const commandRows = {
  'organisation.create': operation(
    'operator',
    'Create an organisation; without a tier it has no inference entitlement',
    { body: bodySchemas.createOrganisation, answer: written(organisationSchema) },
  ),
  'organisation.update': operation(
    'operator',
    'Rename an organisation, put it on another tier, move its billing period, suspend or resume it',
    { params: pathSchemas.id, body: bodySchemas.updateOrganisation, answer: written(organisationSchema) },
  ),
  'organisation.delete': operation(
    'operator',
    'Remove an organisation with its members, keys, stacks and nodes',
    { params: pathSchemas.id, answer: removed },
  ),
  'member.set': operation(managingRoles, 'Give a person a role in an organisation', {
    params: pathSchemas.member,
    body: bodySchemas.setMember,
    answer: written(memberSchema),
  }),
  'member.remove': operation(
    managingRoles,
    'Remove a member from an organisation; keys that they created stay valid',
    { params: pathSchemas.member, answer: removedMember },
  ),
  'tier.set': operation('operator', 'Set the limits and models of a tier; limits left out are unlimited', {
    params: pathSchemas.tier,
    body: bodySchemas.setTier,
    bodyKind: 'list',
    answer: written(tierSchema),
  }),
  'tier.delete': operation(
    'operator',
    'Remove a tier; forced, organisations on it are left without a plan. Removing anonymous closes the service to visitors',
    { params: pathSchemas.tierOrVisitors, answer: removed },
  ),
  'anonymous.set': operation('operator', 'Set the limits and models of visitors who have not signed in', {
    body: bodySchemas.setAnonymous,
    bodyKind: 'list',
    answer: written(anonymousSchema),
  }),
  'bounds.set': operation('operator', 'Set bounds for members; bounds left out have their defaults', {
    body: bodySchemas.setBounds,
    answer: written(boundsSchema),
  }),
  'model.set': operation(
    'operator',
    'Put a model into the catalog, or change its family, weight or affinity',
    { params: pathSchemas.model, body: bodySchemas.setModel, answer: written(modelSchema) },
  ),
  'model.delete': operation(
    'operator',
    'Remove a model from the catalog; forced, also from the pool, stacks and tiers that name it',
    { params: pathSchemas.model, answer: removed },
  ),
  'key.create': operation(keyRoles, 'Create a key; only this answer contains its value', {
    body: bodySchemas.createKey,
    bodyKind: 'list',
    answer: withSecret(apiKeySchema),
    many: { max: madeAtOnceMax, answer: createdKeysSchema },
  }),
  'key.revoke': operation(keyRoles, 'Revoke a key; this is final', {
    params: pathSchemas.id,
    answer: written(apiKeySchema),
  }),
  'stack.create': operation('operator', 'Create a stack for an organisation', {
    body: bodySchemas.createStack,
    answer: written(stackSchema),
  }),
  'stack.delete': operation('operator', 'Remove a stack with its installs and nodes', {
    params: pathSchemas.stack,
    answer: removed,
  }),
  'stack.set-surface': operation(managingRoles, 'Switch a stack to the OpenAI or the Anthropic surface', {
    params: pathSchemas.stack,
    body: bodySchemas.setSurface,
    answer: written(stackSchema),
  }),
  'stack.install': operation(managingRoles, 'Install a model on a stack', {
    params: pathSchemas.stackModel,
    answer: written(stackSchema),
  }),
  'stack.uninstall': operation(managingRoles, 'Uninstall a model from a stack', {
    params: pathSchemas.stackModel,
    answer: written(stackSchema),
  }),
  'pool.install': operation('operator', 'Install a model on the pool', {
    params: pathSchemas.poolModel,
    answer: written(poolSchema),
  }),
  'pool.uninstall': operation('operator', 'Uninstall a model from the pool', {
    params: pathSchemas.poolModel,
    answer: written(poolSchema),
  }),
  'node.register': operation(
    'operator',
    'Register an inference server for the pool, a stack or an organisation',
    { body: bodySchemas.registerNode, bodyKind: 'list', answer: written(nodeSchema) },
  ),
  'node.delete': operation('operator', 'Remove a node with its tokens', {
    params: pathSchemas.id,
    answer: removed,
  }),
  'node.drain': operation('operator', 'Stop sending new requests to a node; requests in flight finish', {
    params: pathSchemas.id,
    answer: written(nodeSchema),
  }),
  'node.undrain': operation('operator', 'Send requests to a drained node again', {
    params: pathSchemas.id,
    answer: written(nodeSchema),
  }),
  'node-token.create': operation(
    'operator',
    "Create a token for a node's agent; only this answer contains its value",
    { params: pathSchemas.id, answer: withSecret(nodeTokenSchema) },
  ),
  'token.create': operation('operator', "Create a token for a node's agent, or those of many nodes at once", {
    body: bodySchemas.createToken,
    bodyKind: 'list',
    answer: withSecret(nodeTokenSchema),
    many: { max: madeAtOnceMax, answer: createdTokensSchema },
  }),
  'node-token.revoke': operation('operator', "Revoke a token and close its agent's session", {
    params: pathSchemas.id,
    answer: written(nodeTokenSchema),
  }),
  'signer.add': operation(
    'operator',
    'Accept the signatures of another key; the first key turns signing on',
    {
      body: bodySchemas.addSigner,
      answer: written(z.object({ fingerprint: z.string(), publicKey: z.string(), ...signersAfter })),
    },
  ),
  'signer.remove': operation('operator', 'Stop accepting the signatures of a key', {
    params: pathSchemas.signer,
    answer: written(z.object({ fingerprint: z.string(), ...signersAfter })),
  }),
  'usage.adjust': operation(
    'operator',
    'Add tokens to the usage of the present period; a negative number gives allowance back',
    { params: pathSchemas.id, body: bodySchemas.adjustUsage, answer: written(usageAdjustmentSchema) },
  ),
  'change.advance': operation(
    'operator',
    'Continue with the next wave of a staged change; after the last, complete it',
    { params: pathSchemas.id, body: bodySchemas.advanceChange, answer: written(changeSchema) },
  ),
  'change.withdraw': operation('operator', 'Withdraw a staged change from the gateways that it has reached', {
    params: pathSchemas.id,
    body: bodySchemas.withdrawChange,
    answer: written(changeSchema),
  }),
  'fleet.apply': operation(
    'operator',
    'Change the fleet to match a fleet file; removes nothing unless `prune` is set',
    {
      query: divisibleQuerySchema,
      body: bodySchemas.applyFleet,
      bodyKind: 'fleet',
      answer: z.object({
        changes: z.array(fleetChangeSchema),
        /** Number of changes still to be made, if any. A client continues by repeating the call with the same body. */
        remaining: z.int().min(1).optional(),
        /** Number of commits that the command needs, in the response to a dry run. Absent if one commit is enough. */
        commits: z.int().min(2).optional(),
        ...commandOutcomeShape,
      }),
    },
  ),
} satisfies OperationRows;
