/** Chooses the organisation of a page; it stands in the address. Nothing where there is no choice. */
import { useOrganisations } from '../lib/organisations.ts';
import { setQuery } from '../lib/router.ts';
import { organisationInScope } from '../lib/scope.ts';
import { isOperator } from '../lib/session.ts';
import { Chooser } from './chooser.tsx';

export interface OrganisationChoiceProps {
  /** Where there is no page for all together: the one that is shown while the address names none. */
  readonly shown?: string | undefined;
}

export function OrganisationChoice({ shown }: OrganisationChoiceProps) {
  const organisations = useOrganisations();
  const inScope = organisationInScope() ?? shown ?? '';
  if (organisations.length < (isOperator() ? 1 : 2)) return null;
  return (
    <Chooser
      key={inScope}
      class="choice row muted"
      label="Organisation"
      chosen={inScope}
      none={isOperator() && shown === undefined ? 'All' : undefined}
      onChoose={(id) => setQuery({ org: id, after: '' })}
    />
  );
}
