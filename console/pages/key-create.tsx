/** Dialog that creates a key. The key's value exists only in this dialog, until the dialog is closed. */
import { useState } from 'preact/hooks';
import type { OperationInput } from '../../schemas/admin/admin.ts';
import { call } from '../lib/api.ts';
import { useOrganisations } from '../lib/organisations.ts';
import { organisationInScope } from '../lib/scope.ts';
import { may } from '../lib/session.ts';
import { Chooser } from '../ui/chooser.tsx';
import { Dialog, FormDialog } from '../ui/dialog.tsx';
import { Choice, Field, Shown } from '../ui/field.tsx';
import { Button, Copy } from '../ui/parts.tsx';

const choices = [
  ['never', 'Never'],
  ['30d', '30 days'],
  ['90d', '90 days'],
  ['1y', '1 year'],
] as const;

export function CreateKey({ onClose }: { readonly onClose: () => void }) {
  const [value, setValue] = useState<string | undefined>();
  if (value !== undefined) return <KeyValue value={value} onClose={onClose} />;
  return <KeyForm onClose={onClose} onCreated={setValue} />;
}

interface FormProps {
  readonly onClose: () => void;
  readonly onCreated: (value: string) => void;
}

function KeyForm({ onClose, onCreated }: FormProps) {
  const organisations = useOrganisations().filter(({ id }) => may('key.create', id));
  const scope = organisationInScope();
  const create = async (fields: FormData): Promise<void> => {
    const organisation = String(fields.get('organisation') ?? organisations[0]?.id ?? '');
    const expires = String(fields.get('expires')) as OperationInput<'key.create'>['expires'];
    // `Required` ensures that a new field of the operation is added here or explicitly set to undefined.
    const body: Required<OperationInput<'key.create'>> = {
      organisation,
      name: String(fields.get('name')),
      expires,
    };
    const key = await call('key.create', body);
    onCreated(key.value ?? '');
  };
  return (
    <FormDialog title="Create an API key" action="Create" work={create} onClose={onClose}>
      <Field label="Name" name="name" required maxLength={200} placeholder="What uses it, e.g. billing job" />
      {organisations.length > 1 ? (
        <Chooser label="Organisation" name="organisation" command="key.create" required chosen={scope} />
      ) : null}
      <Choice label="Expiry" name="expires" options={choices} chosen="90d" />
    </FormDialog>
  );
}

/** Shows the new key. Stays open until the user has copied or stored the key, so that a second Enter does not lose it. */
function KeyValue({ value, onClose }: { readonly value: string; readonly onClose: () => void }) {
  const [isStored, setStored] = useState(false);
  return (
    <Dialog title="Copy this key now" onClose={onClose} focus=".copy-value" isLocked={!isStored}>
      <p>It cannot be shown again. Headgate stores only a hash of it.</p>
      <Shown label="Key value" class="secret" value={value} />
      <label class="row">
        <input
          type="checkbox"
          checked={isStored}
          onInput={({ currentTarget }) => setStored(currentTarget.checked)}
        />
        I have stored it
      </label>
      <div class="dialog-actions row">
        <Copy
          text={value}
          label="Copy"
          class="button copy-value"
          title="Copy the value"
          onCopied={() => setStored(true)}
        />
        <Button look="primary" disabled={!isStored} onClick={onClose}>
          Done
        </Button>
      </div>
    </Dialog>
  );
}
