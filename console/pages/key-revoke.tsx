/** Dialog that revokes a key and then shows which gateways already refuse the key. */
import { useEffect, useState } from 'preact/hooks';
import type { ApiKey, Confirmations, OperationAnswer } from '../../schemas/admin/admin.ts';
import { call } from '../lib/api.ts';
import { ago, plural, seconds } from '../lib/format.ts';
import { Dialog } from '../ui/dialog.tsx';
import { CommandDialog } from '../ui/effect.tsx';
import { Button, State } from '../ui/parts.tsx';

export interface RevokeProps {
  readonly subject: ApiKey;
  /** Last use of the key, or undefined if the key was never used. */
  readonly use: OperationAnswer<'usage.keys'>['items'][number] | undefined;
  readonly onClose: () => void;
}

export function RevokeKey({ subject, use, onClose }: RevokeProps) {
  const { id, name } = subject;
  const [position, setPosition] = useState<number | undefined>();
  if (position !== undefined) return <RevocationProgress name={name} position={position} onClose={onClose} />;
  return (
    <CommandDialog
      title={`Revoke ${name}`}
      action="Revoke key"
      typed={name}
      cli={`headgate key revoke ${id} --wait`}
      command={{ name: 'key.revoke', input: { id } }}
      onClose={onClose}
      onDone={(answer) => setPosition(answer.position)}
    >
      <p>Requests with this key will be refused. This cannot be undone.</p>
      <p>
        {use
          ? `It was last used ${ago(use.lastUsedAt)} and completed ${plural(use.requestsOfDay, 'request')} in the last 24 hours.`
          : 'It has not completed any request yet.'}
      </p>
    </CommandDialog>
  );
}

interface ProgressProps {
  readonly name: string;
  readonly position: number;
  readonly onClose: () => void;
}

/** Pause between two requests for confirmations, in ms. Each request waits at the control plane for up to a second. */
const pauseMs = 100;

function RevocationProgress({ name, position, onClose }: ProgressProps) {
  const [found, setFound] = useState<Confirmations | undefined>();
  useEffect(() => {
    let isOpen = true;
    const ask = async (): Promise<void> => {
      while (isOpen) {
        const answer = await call('confirmations.get', { position, timeoutSeconds: 1 }).catch(
          () => undefined,
        );
        if (answer && isOpen) setFound(answer);
        if (answer?.complete) return;
        await new Promise((resolve) => setTimeout(resolve, answer ? pauseMs : 1000));
      }
    };
    void ask();
    return () => {
      isOpen = false;
    };
  }, [position]);
  return (
    <Dialog title={`${name} is revoked`} onClose={onClose}>
      <div role="status">
        <Sentence found={found} />
      </div>
      <ul class="rows" aria-label="Gateways">
        {(found?.gateways ?? []).map((gateway) => (
          <li key={`${gateway.name} ${gateway.incarnation}`}>
            <strong>{gateway.name}</strong>
            <State tone={gateway.confirmed ? 'good' : 'warn'}>
              {gateway.confirmed
                ? `confirmed after ${seconds(gateway.seconds)}`
                : `pending for ${seconds(gateway.seconds)}`}
            </State>
          </li>
        ))}
      </ul>
      <div class="dialog-actions row">
        <Button look="primary" onClick={onClose}>
          Done
        </Button>
      </div>
    </Dialog>
  );
}

function Sentence({ found }: { readonly found: Confirmations | undefined }) {
  if (!found) return <p>Asking the gateways…</p>;
  if (found.complete) return <p>All gateways have confirmed. The key gets 401 everywhere.</p>;
  return (
    <p>
      {found.gateways.filter(({ confirmed }) => confirmed).length} of {found.gateways.length} gateways have
      confirmed. A silent gateway stops accepting keys after 45 seconds and counts as confirmed after 60.{' '}
      {found.reason ?? ''}
    </p>
  );
}
