/** Chooses the organisation of a page; it stands in the address. Nothing where there is no choice. */
import type { AdminResponse } from '../../schemas/admin.ts';
import { useRead } from '../lib/read.ts';
import { setQuery } from '../lib/router.ts';
import { organisationInScope } from '../lib/scope.ts';
import { isOperator, me } from '../lib/session.ts';

/** `isRequired`: there is no page for all together. */
export function OrganisationChoice({ isRequired = false }: { readonly isRequired?: boolean }) {
  const organisations = useOrganisations();
  const inScope = organisationInScope() ?? '';
  if (organisations.length < (isOperator() ? 1 : 2)) return null;
  // One of the past may be gone.
  const isGone = inScope !== '' && !organisations.some(({ id }) => id === inScope);
  return (
    <label class="choice">
      <span>Organisation</span>
      <select value={inScope} onChange={({ currentTarget }) => setQuery({ org: currentTarget.value })}>
        {isOperator() && !isRequired ? <option value="">All</option> : null}
        {isGone ? <option value={inScope}>{inScope}</option> : null}
        {organisations.map(({ id, name }) => (
          <option key={id} value={id}>
            {name}
          </option>
        ))}
      </select>
    </label>
  );
}

/** All for the operator, their own for a member. */
export function useOrganisations(): readonly { readonly id: string; readonly name: string }[] {
  const { data } = useRead<AdminResponse<'GET /organisations'>>(isOperator() ? '/organisations' : undefined, {
    isOfNow: true,
  });
  return data?.items ?? me.value?.organisations ?? [];
}
