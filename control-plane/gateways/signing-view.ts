/** The replicas that run, and the keys with which they sign. Commands that change the signers need to know them. */
import type { Signer } from '../../shared/log/core/signing.ts';
import type { Snapshot } from '../../shared/snapshot/snapshot.ts';
import type { SigningView } from '../commands/definition.ts';
import type { StatusBoard } from './status-board.ts';

/** A replica that is silent for longer counts as stopped. */
const silentMs = 10_000;

export interface SigningSources {
  /** Name of this replica. */
  readonly replica: string;
  readonly snapshot: Snapshot;
  readonly signer: Signer | undefined;
  readonly board: StatusBoard;
}

export function signingView({ replica, snapshot, signer, board }: SigningSources): SigningView {
  // A replica that does not read back its own reports cannot know which other replicas have stopped.
  const readMs = board.readBackMs(replica);
  const replicas = board
    .controlPlanes()
    .filter(({ seenMs }) => readMs - seenMs < silentMs)
    .map(({ report: { name, signer: key } }) => ({ name, signer: key }));
  return { signers: snapshot.head.signers, own: signer?.publicKey, replicas };
}
