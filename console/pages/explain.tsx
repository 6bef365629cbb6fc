/** Why a request is served or refused: a question in the address, and its answer. */
import { type Asked, askedIn, commandOf, isComplete } from '../lib/explain.ts';
import { useOrganisations } from '../lib/organisations.ts';
import { location } from '../lib/router.ts';
import { organisationInScope } from '../lib/scope.ts';
import { isOperator } from '../lib/session.ts';
import { PageHeader } from '../ui/parts.tsx';
import { ExplainForm } from './explain-form.tsx';
import { Matrix } from './explain-matrix.tsx';
import { Explained } from './explained.tsx';
import { LatestRefusals } from './latest-refusals.tsx';
import { Refusals } from './refusals.tsx';

export function ExplainPage() {
  // Their names are in what was refused.
  useOrganisations();
  const asked = useAsked();
  return (
    <>
      <PageHeader
        title="Explain"
        lead="Why a request is served or refused, which event made it so, and what would change it."
        cli={commandOf(asked)}
      />
      {isComplete(asked) ? null : (
        <>
          <LatestRefusals organisation={organisationInScope() ?? asked.org} />
          <Refusals organisation={organisationInScope() ?? asked.org} />
        </>
      )}
      <ExplainForm key={JSON.stringify(asked)} asked={asked} />
      {isComplete(asked) ? (
        <Explained asked={asked} />
      ) : asked.org !== undefined ? (
        <Matrix key={asked.org} organisation={asked.org} at={asked.at} />
      ) : null}
    </>
  );
}

/** Members ask about their own organisation unless they ask otherwise. */
function useAsked(): Asked {
  const asked = askedIn(location.value.query);
  const isOpen = asked.request === undefined && asked.key === undefined && asked.visitor === undefined;
  if (!isOpen || asked.org !== undefined || isOperator()) return asked;
  return { ...asked, org: organisationInScope() };
}
