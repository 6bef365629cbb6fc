/** Checks the tokens of agents against the current state. */
import { hashSecret } from '../../shared/ids/api-key.ts';
import type { Database, Statement } from '../../shared/runtime/sqlite.ts';
import type { RowOf } from '../../shared/snapshot/tables.ts';
import type { AgentAdmission } from './agent-connection.ts';

type TokenRow = Pick<RowOf<'node_token'>, 'id' | 'node'>;

export class Admissions {
  readonly #byHash: Statement<[Buffer], TokenRow>;
  readonly #byId: Statement;
  readonly #ofNode: Statement;

  constructor(db: Database) {
    this.#byHash = db.prepare<[Buffer], TokenRow>(
      'SELECT id, node FROM node_token WHERE hash = ? AND revoked_at IS NULL',
    );
    this.#ofNode = db.prepare('SELECT 1 FROM node_token WHERE node = ? AND revoked_at IS NULL');
    this.#byId = db.prepare('SELECT 1 FROM node_token WHERE id = ? AND revoked_at IS NULL');
  }

  /** Returns the node and token id for a token, or undefined if the token is unknown or revoked. */
  of(token: string): AgentAdmission | undefined {
    const row = this.#byHash.get(hashSecret(token));
    return row && { node: row.node, token: row.id };
  }

  /** Whether the node has at least one token that is not revoked. */
  canAttach(node: string): boolean {
    return this.#ofNode.get(node) !== undefined;
  }

  isValid({ token }: AgentAdmission): boolean {
    return this.#byId.get(token) !== undefined;
  }
}
