/** What is done to members of an organisation: add, give a role, make a sign-in link. */
import { useState } from 'preact/hooks';
import type { AdminResponse, Member } from '../../schemas/admin.ts';
import { call } from '../lib/api.ts';
import { moment } from '../lib/format.ts';
import { Dialog, FormDialog, useWork } from '../ui/dialog.tsx';
import { Copy, Failure } from '../ui/parts.tsx';

const roles = ['owner', 'admin', 'approver', 'member', 'viewer'] as const;

function pathOf(organisation: string, person: string): string {
  return `/organisations/${encodeURIComponent(organisation)}/members/${encodeURIComponent(person)}`;
}

export function RoleChoice({ member: { organisation, person, role } }: { readonly member: Member }) {
  const { isBusy, failure, run } = useWork();
  return (
    <>
      <select
        aria-label={`Role of ${person}`}
        value={role}
        disabled={isBusy}
        onChange={({ currentTarget }) => {
          const chosen = currentTarget.value;
          currentTarget.value = role;
          run(async () => {
            await call('PUT', pathOf(organisation, person), { body: { role: chosen } });
          });
        }}
      >
        {roles.map((one) => (
          <option key={one} value={one}>
            {one}
          </option>
        ))}
      </select>
      {failure ? <Failure failure={failure} /> : null}
    </>
  );
}

export interface MemberDialogProps {
  readonly organisation: string;
  readonly onClose: () => void;
}

export function AddMember({ organisation, onClose }: MemberDialogProps) {
  const add = async (fields: FormData): Promise<void> => {
    const body = { role: String(fields.get('role')) };
    await call('PUT', pathOf(organisation, String(fields.get('person'))), { body });
    onClose();
  };
  return (
    <FormDialog title="Add a member" action="Add" work={add} onClose={onClose}>
      <label class="field">
        <span>Person</span>
        <input
          name="person"
          type="text"
          required
          pattern="[a-z0-9\-]{1,64}"
          placeholder="ana"
          autocomplete="off"
        />
        <small>
          Lowercase letters, digits and hyphens. The log keeps this id, so it should name nobody by e-mail.
        </small>
      </label>
      <label class="field">
        <span>Role</span>
        <select name="role">
          {roles.toReversed().map((role) => (
            <option key={role} value={role}>
              {role}
            </option>
          ))}
        </select>
      </label>
    </FormDialog>
  );
}

export function LinkDialog({
  organisation,
  person,
  onClose,
}: MemberDialogProps & { readonly person: string }) {
  const { isBusy, failure, run } = useWork();
  const [link, setLink] = useState<{ readonly url: string; readonly expiresAt: string } | undefined>();
  const make = (): void =>
    run(async () => {
      const path = `${pathOf(organisation, person)}/link` as const;
      setLink(await call<AdminResponse<'POST /organisations/:id/members/:person/link'>>('POST', path));
    });
  return (
    <Dialog title={`Sign-in link for ${person}`} onClose={onClose}>
      {link ? (
        <>
          <p>
            It signs {person} in once, until {moment(link.expiresAt)}. Give it to nobody else.
          </p>
          <label class="field">
            <span>Link</span>
            <input
              type="text"
              readOnly
              value={link.url}
              onFocus={({ currentTarget }) => currentTarget.select()}
            />
          </label>
        </>
      ) : (
        <p>
          Who opens the link acts as {person} in {organisation}, with the role that {person} has then.
        </p>
      )}
      {failure ? <Failure failure={failure} /> : null}
      <div class="dialog-actions">
        {link ? (
          <Copy text={link.url} label="Copy" class="button" title="Copy the link" />
        ) : (
          <button type="button" class="button primary" disabled={isBusy} onClick={make}>
            Make link
          </button>
        )}
        <button type="button" class="button" onClick={onClose}>
          Done
        </button>
      </div>
    </Dialog>
  );
}
