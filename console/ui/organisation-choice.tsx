/** Lets the user choose the organisation of a page, which the URL contains. Shows nothing if there is no choice. */
import { useOrganisations } from '../lib/organisations.ts';
import { setQuery } from '../lib/router.ts';
import { organisationInScope } from '../lib/scope.ts';
import { isOperator } from '../lib/session.ts';
import { Chooser } from './chooser.tsx';

export interface OrganisationChoiceProps {
  /** Organisation to show while the URL does not name one, for pages that cannot show all organisations together. */
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
