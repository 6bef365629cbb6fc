/** Why a request is served or refused: a question in the address, and its answer. */
import { useEffect, useState } from 'preact/hooks';
import { ApiFailure, call } from '../lib/api.ts';
import { type Asked, askedIn, commandOf, type Explanation, isComplete, questionOf } from '../lib/explain.ts';
import { changes } from '../lib/live.ts';
import { countedOfPast } from '../lib/read.ts';
import { location } from '../lib/router.ts';
import { organisationInScope } from '../lib/scope.ts';
import { isOperator } from '../lib/session.ts';
import { Failure, Loading, PageHeader } from '../ui/parts.tsx';
import { Answer } from './explain-answer.tsx';
import { ExplainForm } from './explain-form.tsx';
import { Matrix } from './explain-matrix.tsx';
import { Refusals } from './refusals.tsx';

export function ExplainPage() {
  const asked = useAsked();
  return (
    <>
      <PageHeader
        title="Explain"
        lead="Why a request is served or refused, which event made it so, and what would change it."
        cli={commandOf(asked)}
      />
      {isComplete(asked) ? null : <Refusals organisation={organisationInScope() ?? asked.org} />}
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

interface Found {
  /** What was asked. */
  readonly question?: string;
  readonly explanation?: Explanation;
  readonly failure?: ApiFailure;
}

function Explained({ asked }: { readonly asked: Asked }) {
  const [found, setFound] = useState<Found>({});
  const question = JSON.stringify(questionOf(asked));
  // The present changes with each commit; what was recorded and the past do not.
  const version = asked.at === undefined && asked.request === undefined ? changes.value : 0;
  useEffect(() => {
    const ended = new AbortController();
    const answer = call('decision.explain', JSON.parse(question), { signal: ended.signal });
    (asked.at === undefined ? answer : countedOfPast(answer)).then(
      (explanation) => setFound({ question, explanation }),
      (error: unknown) => {
        if (!ended.signal.aborted)
          setFound({
            question,
            failure: error instanceof ApiFailure ? error : new ApiFailure(0, 'Failed', String(error)),
          });
      },
    );
    return () => ended.abort();
  }, [question, version]);
  if (found.question !== question) return <Loading />;
  if (found.failure) return <Failure failure={found.failure} />;
  return found.explanation ? <Answer explanation={found.explanation} asked={asked} /> : <Loading />;
}
