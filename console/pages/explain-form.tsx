/** Asks the question. It is sent as an address, so that an answer can be linked to. */
import { useState } from 'preact/hooks';
import type { ExplainedKind } from '../../schemas/operations.ts';
import { type Asked, explainLink } from '../lib/explain.ts';
import { useRead } from '../lib/read.ts';
import { go } from '../lib/router.ts';
import { organisationInScope } from '../lib/scope.ts';
import { isOperator } from '../lib/session.ts';
import { Choice, Field, suggestionsMax } from '../ui/field.tsx';
import { OrganisationField } from '../ui/organisation-choice.tsx';

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
        <OrganisationField name="org" chosen={asked.org ?? organisationInScope()} />
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
  const newest = { organisation: organisationInScope(), sort: '-createdAt', limit: suggestionsMax };
  const keys = useRead('key.list', newest).data?.items ?? [];
  return (
    <Field
      label="Key id"
      name="key"
      required
      suggestions={keys.map(({ id, name }) => [id, name])}
      defaultValue={asked.key ?? ''}
      placeholder="key-…"
    />
  );
}

function Details({ asked }: { readonly asked: Asked }) {
  const models =
    useRead(isOperator() ? 'model.list' : undefined, { limit: suggestionsMax }).data?.items ?? [];
  const organisation = organisationInScope();
  const stacks = useRead('stack.list', { organisation }, { isWhole: true }).data?.items ?? [];
  const hosts = ['shared', ...stacks.map(({ id }) => id)];
  const others = asked.host !== undefined && !hosts.includes(asked.host) ? [asked.host] : [];
  return (
    <>
      <Field
        label="Model"
        name="model"
        suggestions={models.map(({ id }) => [id, id])}
        defaultValue={asked.model ?? ''}
        placeholder="empty: all of them"
      />
      <Choice
        label="Host"
        name="host"
        options={[...hosts, ...others].map((host) => [host, host === 'shared' ? 'the shared host' : host])}
        chosen={asked.host ?? 'shared'}
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
