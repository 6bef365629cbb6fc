/** Shows an explanation: the verdict, every step with its event, and commands that would avoid a refusal. */
import type { Because, ExplainedStep } from '../../schemas/records/explanations.ts';
import { withQuery } from '../lib/api.ts';
import { type ExplainQuery, type Explanation, explainLink } from '../lib/explain.ts';
import { count, moment, nameSome, plural } from '../lib/format.ts';
import { useRead } from '../lib/read.ts';
import { isOperator } from '../lib/session.ts';
import { Name } from '../ui/name.tsx';
import { Badge, Card, Copy, Facts, State, type Tone } from '../ui/parts.tsx';

export function Answer({
  explanation,
  asked,
}: {
  readonly explanation: Explanation;
  readonly asked: ExplainQuery;
}) {
  const { steps, decisive, diff, assumptions } = explanation;
  return (
    <section class="stack" aria-label="Answer">
      <Verdict explanation={explanation} />
      <ol class="explained-steps" aria-label="Steps">
        {steps.map((step) => (
          <StepLine key={step.step} step={step} isDecisive={step.step === decisive} />
        ))}
      </ol>
      <Around explanation={explanation} asked={asked} />
      {diff ? <Difference diff={diff} /> : null}
      {assumptions.length === 0 ? null : (
        <ul class="muted assumptions" aria-label="Assumptions">
          {assumptions.map((text) => (
            <li key={text} class="verbatim">
              Assumed: {text}
            </li>
          ))}
        </ul>
      )}
      {asked.request === undefined ? null : <Recorded request={asked.request} />}
    </section>
  );
}

const verdictTones = { served: 'good', refused: 'bad', ended: 'warn' } as const;

function Verdict({ explanation }: { readonly explanation: Explanation }) {
  const { verdict, at, gateway, time, cause } = explanation;
  const { outcome, status, type, message } = verdict;
  const tone = verdictTones[outcome];
  const isEnded = outcome === 'ended';
  return (
    <div class={`notice ${tone}`} role="status">
      <p class="verdict">
        <State tone={tone}>{isEnded ? message : `${outcome} ${status ?? ''} ${type ?? ''}`}</State>
      </p>
      {message === undefined || isEnded ? null : <p class="verbatim">“{message}”</p>}
      <p class="muted">
        {gateway === undefined ? null : (
          <>
            <Name of={{ kind: 'gateway', id: gateway }} />,{' '}
          </>
        )}
        {time === undefined ? null : `${moment(time)}, `}
        state at position {count(at)}
        {cause === undefined || cause === type ? null : `, cause: ${cause}`}
      </p>
    </div>
  );
}

const tones: Readonly<Record<ExplainedStep['result'], Tone>> = {
  ok: 'good',
  refused: 'bad',
  skipped: 'idle',
  assumed: 'info',
};

function StepLine({ step, isDecisive }: { readonly step: ExplainedStep; readonly isDecisive: boolean }) {
  const { step: name, result, text, because, facts } = step;
  const known = Object.entries(facts).filter(([, value]) => value !== null && value !== undefined);
  return (
    <li class={`explained ${result}`} aria-label={name}>
      <span class="step-name">
        <State tone={tones[result]}>{name}</State>
        <span class="visually-hidden">{result}</span>
      </span>
      <span class="verbatim">
        {text}
        {isDecisive ? (
          <>
            {' '}
            <Badge>decided it</Badge>
          </>
        ) : null}
        {because === undefined ? null : <EventLine event={because} />}
      </span>
      {known.length === 0 ? null : (
        <details>
          <summary aria-label={`Facts of ${name}`}>Facts</summary>
          <pre>{JSON.stringify(Object.fromEntries(known), null, 1)}</pre>
        </details>
      )}
    </li>
  );
}

function EventLine({ event: { type, position, by, at, why } }: { readonly event: Because }) {
  const what = `${type} at ${count(position)}`;
  return (
    <small class="because muted">
      {isOperator() ? (
        <a class="name" href={withQuery('/events', { before: position })}>
          {what}
        </a>
      ) : (
        what
      )}
      {by === undefined ? '' : `, by ${by}`}
      {why === undefined ? '' : `: ${why}`} <time dateTime={at}>{moment(at)}</time>
    </small>
  );
}

/** Shows the verdict before the decisive event, ways to avoid a refusal, and whether this build would decide the same. */
function Around({ explanation, asked }: { readonly explanation: Explanation; readonly asked: ExplainQuery }) {
  const { before, would, same } = explanation;
  if (before === undefined && would.length === 0 && same === undefined) return null;
  return (
    <section class="card">
      <Facts
        items={{
          'Answer before': before && (
            <a href={explainLink({ ...asked, at: String(before.position), diff: undefined })}>
              {before.status} {before.type ?? 'served'} at position {count(before.position)}
            </a>
          ),
          'What would help': would.length === 0 ? undefined : <Would commands={would} />,
          Check:
            same === undefined ? undefined : (
              <State tone={same ? 'good' : 'bad'}>this build decides {same ? 'the same' : 'otherwise'}</State>
            ),
        }}
      />
    </section>
  );
}

function Would({ commands }: { readonly commands: readonly string[] }) {
  return (
    <ul class="would stack" aria-label="Commands that would serve it">
      {commands.map((command) => (
        <li key={command} class="id">
          <code>{command}</code>
          <Copy text={command} label={`Copy ${command}`} isIcon />
        </li>
      ))}
    </ul>
  );
}

function Difference({
  diff: { from, to, steps, events },
}: {
  readonly diff: NonNullable<Explanation['diff']>;
}) {
  return (
    <Card title={`Changes between positions ${count(from)} and ${count(to)}`} label="Difference">
      {steps.length === 0 ? (
        <p>No step differs.</p>
      ) : (
        <>
          <p>These steps differ: {steps.join(', ')}</p>
          <ul class="rows">
            {events.map((event) => (
              <li key={`${event.position} ${event.type}`}>
                <EventLine event={event} />
              </li>
            ))}
          </ul>
        </>
      )}
    </Card>
  );
}

/** Shows the gateway's record of an actual request. The record contains no prompt, address or header. */
function Recorded({ request }: { readonly request: string }) {
  const { data } = useRead('decision.get', { request }, { isFixed: true });
  if (!data) return null;
  const { decision, unanswered } = data;
  const { key, organisation, visitor, model, node, ms, promptTokensMax, promptTokens = 0 } = decision;
  const times = [
    ['accepted', ms.accepted],
    ['decided', ms.decided],
    ['sent to the node', ms.sent],
    ['first byte', ms.begun],
    ['ended', ms.end],
  ] as const;
  return (
    <Card title="What the gateway recorded" label="What was recorded">
      <Facts
        items={{
          Caller:
            key !== undefined ? (
              <Name of={{ kind: 'key', id: key, ...(organisation && { within: organisation }) }} />
            ) : organisation !== undefined ? (
              <Name of={{ kind: 'organisation', id: organisation }} />
            ) : (
              (visitor ?? 'unknown')
            ),
          Model:
            model !== undefined ? (
              <Name of={{ kind: 'model', id: model }} />
            ) : ms.shaped === undefined ? (
              'not read'
            ) : (
              'unknown name'
            ),
          Prompt: `${decision.counted === 'node' ? '' : 'at most '}${plural(promptTokensMax ?? promptTokens, 'token')}`,
          Node: node === undefined ? 'none' : <Name of={{ kind: 'node', id: node }} />,
          Timeline: times
            .filter(([, value]) => value !== undefined)
            .map(([name, value = 0]) => `${name} after ${value.toFixed(1)} ms`)
            .join(', '),
        }}
      />
      {unanswered.length === 0 ? null : (
        <p class="muted">These gateways did not answer: {nameSome(unanswered)}</p>
      )}
      <details>
        <summary>Full record</summary>
        <pre>{JSON.stringify(decision, null, 1)}</pre>
      </details>
    </Card>
  );
}
