/** Reads of the signers of the log. */
import type { FastifyInstance } from 'fastify';
import type { AdminResponse, ReplicaStatus } from '../../schemas/admin.ts';
import { fingerprintOf } from '../../shared/log/core/signing.ts';
import { signingView } from '../command-log/log-signing.ts';
import { type AdminContext, parseQuery, pastReaderOf, readQuerySchema, stateFor } from './context.ts';

/** The part of the status document about signatures. */
export function signingStatus(
  signers: readonly string[],
  { signer }: AdminContext,
): Pick<ReplicaStatus, 'signers' | 'signer'> {
  return {
    signers: signers.map(fingerprintOf),
    ...(signer && { signer: fingerprintOf(signer.publicKey) }),
  };
}

export function registerSignerRoutes(app: FastifyInstance, context: AdminContext): void {
  app.get(
    '/signers',
    { config: { access: 'operator', past: true }, schema: { summary: 'List the signers of the log' } },
    async (request, reply): Promise<AdminResponse<'GET /signers'>> => {
      const query = parseQuery(readQuerySchema, request.query);
      const state = await stateFor(context, query, pastReaderOf(request, reply));
      const { replicas } = signingView(context);
      const items = state.head.signers.map((publicKey) => {
        const fingerprint = fingerprintOf(publicKey);
        const names = replicas.filter(({ signer }) => signer === fingerprint).map(({ name }) => name);
        return { fingerprint, publicKey, replicas: names };
      });
      return { items, position: state.seq };
    },
  );
}
