/**
 * Method and path of each admin API operation. Paths are relative to the API's prefix. Clients need only this table, so it is
 * separate from the other declarations. `schemas/admin/admin.ts` must have an entry for each name.
 */
export const adminRoutes = {
  'document.get': 'GET /openapi.json',
  'me.get': 'GET /me',
  'console.link': 'POST /console/links',
  'member.link': 'POST /organisations/:id/members/:person/link',
  'member.invite': 'POST /organisations/:id/invitations',

  'organisation.list': 'GET /organisations',
  'organisation.get': 'GET /organisations/:id',
  'organisation.create': 'POST /organisations',
  'organisation.update': 'PATCH /organisations/:id',
  'organisation.delete': 'DELETE /organisations/:id',
  'organisation.activity': 'GET /organisations/:id/activity',
  'organisation.limits': 'GET /organisations/:id/limits',
  'member.list': 'GET /members',
  'member.set': 'PUT /organisations/:id/members/:person',
  'member.remove': 'DELETE /organisations/:id/members/:person',
  'key.list': 'GET /keys',
  'key.get': 'GET /keys/:id',
  'key.create': 'POST /keys',
  'key.revoke': 'POST /keys/:id/revoke',

  'tier.list': 'GET /tiers',
  'tier.get': 'GET /tiers/:id',
  'tier.set': 'PUT /tiers/:id',
  'tier.delete': 'DELETE /tiers/:id',
  'anonymous.get': 'GET /anonymous',
  'anonymous.set': 'PUT /anonymous',
  'bounds.get': 'GET /bounds',
  'bounds.set': 'PUT /bounds',
  'model.list': 'GET /models',
  'model.get': 'GET /models/:id',
  'model.set': 'PUT /models/:id',
  'model.delete': 'DELETE /models/:id',

  'stack.list': 'GET /stacks',
  'stack.get': 'GET /stacks/:id',
  'stack.create': 'POST /stacks',
  'stack.delete': 'DELETE /stacks/:id',
  'stack.set-surface': 'PUT /stacks/:id/surface',
  'stack.install': 'PUT /stacks/:id/models/:model',
  'stack.uninstall': 'DELETE /stacks/:id/models/:model',
  'pool.get': 'GET /pool',
  'pool.install': 'PUT /pool/models/:model',
  'pool.uninstall': 'DELETE /pool/models/:model',
  'node.list': 'GET /nodes',
  'node.get': 'GET /nodes/:id',
  'node.register': 'POST /nodes',
  'node.delete': 'DELETE /nodes/:id',
  'node.drain': 'POST /nodes/:id/drain',
  'node.undrain': 'POST /nodes/:id/undrain',
  'node-token.list': 'GET /nodes/:id/tokens',
  'node-token.get': 'GET /tokens/:id',
  'node-token.create': 'POST /nodes/:id/tokens',
  'node-token.revoke': 'POST /tokens/:id/revoke',
  'token.create': 'POST /tokens',

  'change.list': 'GET /staged-changes',
  'change.get': 'GET /staged-changes/:id',
  'change.advance': 'POST /staged-changes/:id/advance',
  'change.withdraw': 'POST /staged-changes/:id/withdraw',
  'fleet.get': 'GET /fleet',
  'fleet.diff': 'POST /fleet/diff',
  'fleet.apply': 'POST /fleet/apply',
  'signer.list': 'GET /signers',
  'signer.add': 'POST /signers',
  'signer.remove': 'DELETE /signers/:fingerprint',
  'status.get': 'GET /status',
  'gateway.list': 'GET /gateways',
  'gateway.get': 'GET /gateways/:name',
  'gateway.forget': 'DELETE /gateways/:name',
  'confirmations.get': 'GET /confirmations/:position',
  'snapshot.get': 'GET /snapshot',
  'counters.get': 'GET /counters',

  'event.list': 'GET /events',
  'event.tail': 'GET /events/stream',
  'log.export': 'GET /log',
  'commit.get': 'GET /events/:position',
  'commit.inverse': 'GET /events/:position/undo',
  'commit.undo': 'POST /events/:position/undo',
  'changes.get': 'GET /changes',
  'doctor.get': 'GET /doctor',

  'limits.list': 'GET /limits',
  'limits.visitors': 'GET /limits/visitors',
  'usage.get': 'GET /usage',
  'usage.visitors': 'GET /usage/visitors',
  'usage.keys': 'GET /usage/keys',
  'usage.export': 'GET /usage/export',
  'usage.adjust': 'POST /organisations/:id/usage-adjustments',
  'activity.get': 'GET /activity',
  'traffic.get': 'GET /traffic',

  'effect.get': 'POST /effect',
  'decision.explain': 'POST /explain',
  'decision.matrix': 'GET /explain/matrix',
  'decision.get': 'GET /decisions/:request',
  'decision.export': 'GET /decisions',

  'request.list': 'GET /requests',
  'request.tail': 'GET /requests/stream',
} as const;

export const adminPrefix = '/admin/v1';

type AdminRoutes = typeof adminRoutes;
export type OperationName = keyof AdminRoutes;
export type AdminMethod = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

export type OperationMethod<Name extends OperationName> =
  AdminRoutes[Name] extends `${infer Method extends AdminMethod} ${string}` ? Method : never;

type NamesIn<Path extends string> = Path extends `${string}:${infer Name}/${infer Rest}`
  ? Name | NamesIn<Rest>
  : Path extends `${string}:${infer Name}`
    ? Name
    : never;
export type PathNames<Name extends OperationName> = NamesIn<AdminRoutes[Name]>;

export const operationNames = Object.keys(adminRoutes) as readonly OperationName[];

/** Operations that only read, although they need a request body. */
export const questions = ['fleet.diff', 'effect.get', 'decision.explain'] as const satisfies OperationName[];

/** Returns the method and path of an operation. The path contains `:name` for each parameter. */
export function operationRoute<Name extends OperationName>(
  name: Name,
): { readonly method: OperationMethod<Name>; readonly path: string } {
  const [method, path = ''] = adminRoutes[name].split(' ');
  return { method: method as OperationMethod<Name>, path };
}

/** Fills in the parameters of an operation's path. Returns the path, the parameters and the remaining input. */
export function resolvePath(
  name: OperationName,
  input: object,
): {
  readonly path: string;
  readonly params: Readonly<Record<string, string>>;
  readonly rest: Readonly<Record<string, unknown>>;
} {
  const params: Record<string, string> = {};
  const rest: Record<string, unknown> = { ...input };
  const path = operationRoute(name).path.replace(/:(\w+)/g, (_all, param: string) => {
    const part = String(rest[param] ?? '');
    delete rest[param];
    params[param] = part;
    return encodeURIComponent(part);
  });
  return { path, params, rest };
}
