/** Asks the question. It is sent as an address, so that an answer can be linked to. */
import { useState } from 'preact/hooks';
import type { ExplainedKind } from '../../schemas/operations.ts';
import { type Asked, explainLink } from '../lib/explain.ts';
import { go } from '../lib/router.ts';
import { organisationInScope } from '../lib/scope.ts';
import { isOperator } from '../lib/session.ts';
import { Chooser } from '../ui/chooser.tsx';
import { Choice, Field } from '../ui/field.tsx';

type Subject = 'request' | 'key' | 'org' | 'visitor';

const subjects: readonly (readonly [Subject, string])[] = [
  ['request', 'A request that was made'],
  ['org', 'An organisation'],
  ['key', 'A key'],
  ['visitor', 'A visitor'],
];
const kindNames: Readonly<Record<ExplainedKind, string>> = {
  chat: 'Chat completions',
  responses: 'Responses',
  messages: 'Messages',
  embeddings: 'Embeddings',
  rerank: 'Rerank',
  models: 'List of models',
};
const kinds = Object.entries(kindNames);

function subjectOf(asked: Asked): Subject {
  if (asked.request !== undefined) return 'request';
  if (asked.key !== undefined) return 'key';
  if (asked.visitor !== undefined) return 'visitor';
  return asked.org !== undefined ? 'org' : 'request';
}

export function ExplainForm({ asked }: { readonly asked: Asked }) {
  const [subject, setSubject] = useState(subjectOf(asked));
  const submit = (event: SubmitEvent): void => {
    event.preventDefault();
    const fields = new FormData(event.currentTarget as HTMLFormElement);
    const values = Object.fromEntries([...fields].map(([name, value]) => [name, String(value).trim()]));
    const { subject: chosen, ...rest } = values;
    const wanted = chosen === 'visitor' ? { ...rest, visitor: 'true' } : rest;
    const defaults: Asked = { host: 'shared', path: 'chat' };
    const isDefault = ([name, value]: [string, string]): boolean => defaults[name as keyof Asked] === value;
    go(
      explainLink({
        ...Object.fromEntries(Object.entries(wanted).filter((entry) => !isDefault(entry))),
        at: asked.at,
      }),
    );
  };
  return (
    <form class="card explain-form" onSubmit={submit} aria-label="Question">
      <Choice
        label="Who asks"
        name="subject"
        options={subjects.filter(([one]) => one !== 'visitor' || isOperator())}
        chosen={subject}
        onChoose={(value) => setSubject(value as Subject)}
      />
      {subject === 'request' ? <RequestField asked={asked} /> : null}
      {subject === 'key' ? <KeyField asked={asked} /> : null}
      {subject === 'org' ? (
        <Chooser
          label="Organisation"
          of="organisation"
          name="org"
          required
          chosen={asked.org ?? organisationInScope()}
        />
      ) : null}
      {subject === 'request' ? null : <Details asked={asked} />}
      <Field
        label="Compare with"
        name="diff"
        defaultValue={asked.diff ?? ''}
        placeholder="position, time or 10m"
      />
      <button type="submit" class="button primary">
        Explain
      </button>
    </form>
  );
}

function RequestField({ asked }: { readonly asked: Asked }) {
  return (
    <Field
      label="Request id"
      name="request"
      required
      pattern="req_[0-9a-f]{32}"
      spellcheck={false}
      defaultValue={asked.request ?? ''}
      placeholder="req_… of the answer"
      title="req_ and 32 hexadecimal digits, from the header x-request-id of the answer"
    />
  );
}

function KeyField({ asked }: { readonly asked: Asked }) {
  return (
    <Chooser
      label="Key id"
      of="key"
      organisation={organisationInScope()}
      name="key"
      required
      isFree
      chosen={asked.key}
      placeholder="key-…"
    />
  );
}

function Details({ asked }: { readonly asked: Asked }) {
  return (
    <>
      <Chooser
        label="Model"
        of="model"
        name="model"
        isFree
        chosen={asked.model}
        placeholder="empty: all of them"
      />
      <Chooser
        label="Host"
        of="stack"
        organisation={organisationInScope()}
        name="host"
        none="the shared host"
        chosen={asked.host === 'shared' ? '' : asked.host}
      />
      <Choice label="Kind" name="path" options={kinds} chosen={asked.path ?? 'chat'} />
      <Field
        label="Prompt tokens"
        name="prompt"
        type="number"
        min={0}
        defaultValue={asked.prompt ?? ''}
        placeholder="1"
      />
      <Field
        label="Tokens asked for"
        name="max"
        type="number"
        min={0}
        defaultValue={asked.max ?? ''}
        placeholder="none"
      />
    </>
  );
}
