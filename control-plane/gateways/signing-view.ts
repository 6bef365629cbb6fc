/** Lists the running replicas with the keys that they sign with. Commands that change the log's signers need this list. */
import type { Signer } from '../../shared/log/core/signing.ts';
import type { Snapshot } from '../../shared/snapshot/snapshot.ts';
import type { SigningView } from '../commands/definition.ts';
import type { StatusBoard } from './status-board.ts';

/** Silence in ms after which a replica counts as stopped. */
const silentMs = 10_000;

export interface SigningSources {
  readonly replica: string;
  readonly snapshot: Snapshot;
  readonly signer: Signer | undefined;
  readonly board: StatusBoard;
}

export function signingView({ replica, snapshot, signer, board }: SigningSources): SigningView {
  // Measures silence only up to the time when this replica last read back one of its own reports. If it cannot read the
  // topic, it cannot know which replicas have stopped.
  const readMs = board.readBackMs(replica);
  const replicas = board
    .controlPlanes()
    .filter(({ seenMs }) => readMs - seenMs < silentMs)
    .map(({ report: { name, signer: key } }) => ({ name, signer: key }));
  return { signers: snapshot.head.signers, own: signer?.publicKey, replicas };
}
