/** Decides commands on the log's signers. They change one at a time, and no running replica may lose the right to write. */
import { computeFingerprint, normalisePublicKey } from '../../shared/log/core/signing.ts';
import { CommandError } from '../core/command-error.ts';
import { type CommandContext, type CommandPlan, defineCommands, type SigningView } from './definition.ts';

const signersMax = 16;

function describeSigning({ signing }: CommandContext): SigningView {
  return signing ?? { signers: [], own: undefined, replicas: [] };
}

function parsePublicKey(text: string): string {
  let fault: string;
  try {
    return normalisePublicKey(text, 'publicKey');
  } catch (error) {
    fault = error instanceof Error ? error.message : String(error);
  }
  throw new CommandError('InvalidCommand', fault);
}

/** Plans new signers. Throws `GuardRefused` if a running replica could then no longer write, unless forced. */
function change(context: CommandContext, signers: readonly string[]): CommandPlan {
  const { own, replicas } = describeSigning(context);
  const kept = new Set(signers.map(computeFingerprint));
  const stranded = replicas.filter(({ signer }) => signer === undefined || !kept.has(signer));
  const names = stranded.map(({ name }) => name);
  if (own !== undefined && !signers.includes(own) && names.length === 0) names.push('this one');
  if (names.length > 0 && !context.force)
    throw new CommandError(
      'GuardRefused',
      `running replicas could no longer write, because they have no key among the new signers: ${names.slice(0, 20).join(', ')}`,
      { next: 'give them such a key first, or repeat the command with force if they need not write' },
    );
  return {
    events: [{ type: 'log.signers_set', data: { signers: [...signers] } }],
    extra: { signers: [...kept] },
  };
}

export const signerCommands = defineCommands({
  'signer.add': {
    decide: (_db, { body }, context) => {
      const publicKey = parsePublicKey(body.publicKey);
      const { signers, own } = describeSigning(context);
      if (signers.includes(publicKey)) return { events: [] };
      if (signers.length === 0 && publicKey !== own)
        throw new CommandError(
          'Conflict',
          'the log is not signed, and its first signer must be the replica that runs this command',
          {
            next:
              own === undefined
                ? 'start this replica with HEADGATE_SIGNING_KEY and --allow-unsigned'
                : `first add the key of this replica, ${computeFingerprint(own)}`,
          },
        );
      if (signers.length >= signersMax)
        throw new CommandError('Conflict', `a log has at most ${signersMax} signers`, {
          next: 'first remove a signer that is no longer needed',
        });
      return change(context, [...signers, publicKey]);
    },
    show: (_db, { body }) => {
      const publicKey = parsePublicKey(body.publicKey);
      return { fingerprint: computeFingerprint(publicKey), publicKey };
    },
  },
  'signer.remove': {
    decide: (_db, { params: { fingerprint } }, context) => {
      const { signers } = describeSigning(context);
      const left = signers.filter((signer) => computeFingerprint(signer) !== fingerprint);
      if (left.length === signers.length)
        throw new CommandError('NotFound', `the log has no signer ${fingerprint}`, {
          next: 'headgate signer list shows what exists',
        });
      if (left.length === 0)
        throw new CommandError('Conflict', 'this is the last signer, and a signed log must stay signed', {
          next: 'add another signer first: headgate signer add PUBLIC-KEY-FILE',
        });
      return change(context, left);
    },
    show: (_db, { params: { fingerprint } }) => ({ fingerprint }),
  },
});
