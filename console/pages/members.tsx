/** Dialogs that add a member to an organisation, change a member's role, or create a sign-in link. */
import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import type { Member, OperationAnswer } from '../../schemas/admin/admin.ts';
import { call } from '../lib/api.ts';
import { moment } from '../lib/format.ts';
import { Dialog, FormDialog, useWork } from '../ui/dialog.tsx';
import { Choice, Field, Shown } from '../ui/field.tsx';
import { Button, Copy, Failure } from '../ui/parts.tsx';

type Role = Member['role'];
const roles: Readonly<Record<Role, string>> = {
  viewer: 'viewer: reads only',
  member: 'member: creates and revokes keys',
  approver: 'approver: creates and revokes keys',
  admin: 'admin: manages members, stacks and keys',
  owner: 'owner: manages everything, also owners',
};

const roleOf = (fields: FormData): Role => String(fields.get('role')) as Role;

const roleField = <Choice label="Role" name="role" options={Object.entries(roles)} />;

export function RoleChoice({ member: { organisation, person, role } }: { readonly member: Member }) {
  const { isBusy, failure, run } = useWork();
  return (
    <>
      <select
        aria-label={`Role of ${person}`}
        value={role}
        disabled={isBusy}
        onChange={({ currentTarget }) => {
          const chosen = currentTarget.value as Role;
          currentTarget.value = role;
          run(async () => {
            await call('member.set', { id: organisation, person, role: chosen });
          });
        }}
      >
        {Object.keys(roles).map((one) => (
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
    const person = String(fields.get('person'));
    await call('member.set', { id: organisation, person, role: roleOf(fields) });
    onClose();
  };
  return (
    <FormDialog title="Add a member" action="Add member" work={add} onClose={onClose}>
      <Field
        label="Person"
        name="person"
        required
        pattern="[a-z0-9\-]{1,64}"
        placeholder="ana"
        hint="A short id of lowercase letters, digits and hyphens. It stays in the log for good, so do not use an e-mail address."
      />
      {roleField}
    </FormDialog>
  );
}

export function LinkDialog({
  organisation,
  person,
  onClose,
}: MemberDialogProps & { readonly person: string }) {
  const { isBusy, failure, run } = useWork();
  const [link, setLink] = useState<Link | undefined>();
  const make = (): void =>
    run(async () => {
      setLink(await call('member.link', { id: organisation, person }));
    });
  const title = `Sign-in link for ${person}`;
  if (link)
    return (
      <LinkShown title={title} link={link} onClose={onClose}>
        It signs in {person} once, until {moment(link.expiresAt)}. Send it to {person} only.
      </LinkShown>
    );
  return (
    <Dialog title={title} onClose={onClose}>
      <p>
        Whoever opens this link is signed in as {person} of {organisation}, once. Send it to {person} only.
      </p>
      {failure ? <Failure failure={failure} /> : null}
      <div class="dialog-actions row">
        <Button look="primary" disabled={isBusy} onClick={make}>
          Create link
        </Button>
        <Button onClick={onClose}>Cancel</Button>
      </div>
    </Dialog>
  );
}

type Link = OperationAnswer<'member.invite'>;

/** Dialog that invites someone who signs in through the identity provider, because their id is not known in advance. */
export function Invite({ organisation, onClose }: MemberDialogProps) {
  const [link, setLink] = useState<Link | undefined>();
  if (link)
    return (
      <LinkShown title="Invitation" link={link} onClose={onClose}>
        The first person who opens it and signs in becomes a member. It expires at {moment(link.expiresAt)}.
      </LinkShown>
    );
  const invite = async (fields: FormData): Promise<void> => {
    setLink(await call('member.invite', { id: organisation, role: roleOf(fields) }));
  };
  return (
    <FormDialog
      title={`Invite to ${organisation}`}
      action="Create invitation"
      work={invite}
      onClose={onClose}
    >
      {roleField}
    </FormDialog>
  );
}

interface LinkShownProps {
  readonly title: string;
  readonly link: Link;
  readonly onClose: () => void;
  readonly children: ComponentChildren;
}

function LinkShown({ title, link, onClose, children }: LinkShownProps) {
  return (
    <Dialog title={title} onClose={onClose}>
      <p>{children}</p>
      <Shown label="Link" value={link.url} />
      <div class="dialog-actions row">
        <Copy text={link.url} label="Copy" class="button" title="Copy the link" />
        <Button onClick={onClose}>Done</Button>
      </div>
    </Dialog>
  );
}
