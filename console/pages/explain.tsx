/** Page that explains why a request is served or refused. The URL contains the question. */
import { momentForms } from '../../schemas/admin/moments.ts';
import {
  type ExplainQuery,
  explainCommand,
  explainLink,
  isComplete,
  parseExplainQuery,
} from '../lib/explain.ts';
import { sentence } from '../lib/format.ts';
import { useOrganisations } from '../lib/organisations.ts';
import { go, location } from '../lib/router.ts';
import { organisationInScope } from '../lib/scope.ts';
import { Field } from '../ui/field.tsx';
import { PageHeader } from '../ui/page.tsx';
import { Explained } from './explained.tsx';
import { LatestRefusals } from './latest-refusals.tsx';
import { Refusals } from './refusals.tsx';

export function ExplainPage() {
  // Loads the names of organisations, because the explanation shows them.
  useOrganisations();
  const asked = parseExplainQuery(location.value.query);
  const isAsked = isComplete(asked);
  return (
    <>
      <PageHeader
        title="Explain"
        lead={
          <>
            Why a request was served or refused, which event led to that, and what would change it.{' '}
            <a href="/models">Models</a> shows the outcome for each model and host of an organisation.
          </>
        }
        cli={explainCommand(asked)}
      />
      <QuestionForm key={JSON.stringify(asked)} asked={asked} />
      {isAsked ? (
        <Explained asked={asked} />
      ) : (
        <>
          <LatestRefusals organisation={organisationInScope() ?? asked.org} />
          <Refusals organisation={organisationInScope() ?? asked.org} />
        </>
      )}
    </>
  );
}

/** Form that asks about a request by its id, or compares the outcome of a request with the outcome at another moment. */
function QuestionForm({ asked }: { readonly asked: ExplainQuery }) {
  const submit = (event: SubmitEvent): void => {
    event.preventDefault();
    const fields = new FormData(event.currentTarget as HTMLFormElement);
    const values = Object.fromEntries([...fields].map(([name, value]) => [name, String(value).trim()]));
    go(explainLink({ ...asked, ...values }));
  };
  const isAboutRequest = asked.request !== undefined || !isComplete(asked);
  return (
    <form class="card explain-form" onSubmit={submit} aria-label="Question">
      {isAboutRequest ? (
        <Field
          label="Request id"
          name="request"
          required
          pattern="req_[0-9a-f]{32}"
          spellcheck={false}
          defaultValue={asked.request ?? ''}
          placeholder="req_…"
          title="The answer’s header x-request-id: req_ and 32 hexadecimal digits"
        />
      ) : null}
      <Field
        label="Compare with"
        name="diff"
        defaultValue={asked.diff ?? ''}
        placeholder="10m, 2d or a position"
        title={sentence(momentForms)}
      />
      <button type="submit" class="button primary">
        Explain
      </button>
    </form>
  );
}
