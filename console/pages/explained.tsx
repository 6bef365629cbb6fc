/** Reads the explanation for a question. If the question is about the present, reads it again when the state changes. */
import { useEffect, useState } from 'preact/hooks';
import { type ApiFailure, call, toFailure } from '../lib/api.ts';
import { type ExplainQuery, type Explanation, toQuestion } from '../lib/explain.ts';
import { changes } from '../lib/live.ts';
import { Failure, Loading } from '../ui/parts.tsx';
import { Answer } from './explain-answer.tsx';

interface ExplainedState {
  readonly question?: string;
  readonly explanation?: Explanation;
  readonly failure?: ApiFailure;
}

export function Explained({ asked }: { readonly asked: ExplainQuery }) {
  const [found, setFound] = useState<ExplainedState>({});
  const question = JSON.stringify(toQuestion(asked));
  // Explanations of the present may change with each commit. Those of recorded requests and past states never change.
  const version = asked.at === undefined && asked.request === undefined ? changes.value : 0;
  useEffect(() => {
    const ended = new AbortController();
    call('decision.explain', JSON.parse(question), { signal: ended.signal }).then(
      (explanation) => setFound({ question, explanation }),
      (error: unknown) => {
        if (!ended.signal.aborted) setFound({ question, failure: toFailure(error) });
      },
    );
    return () => ended.abort();
  }, [question, version]);
  if (found.question !== question) return <Loading />;
  if (found.failure) return <Failure failure={found.failure} />;
  return found.explanation ? <Answer explanation={found.explanation} asked={asked} /> : <Loading />;
}
