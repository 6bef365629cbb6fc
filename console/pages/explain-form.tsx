/** Asks the question. It is sent as an address, so that an answer can be linked to. */
import type { ComponentChildren } from 'preact';
import { useId, useState } from 'preact/hooks';
import type { AdminResponse } from '../../schemas/admin.ts';
import { withQuery } from '../lib/api.ts';
import { type Asked, explainLink } from '../lib/explain.ts';
import { useRead } from '../lib/read.ts';
import { go } from '../lib/router.ts';
import { organisationInScope } from '../lib/scope.ts';
import { isOperator } from '../lib/session.ts';
import { useOrganisations } from '../ui/organisation-choice.tsx';

type Subject = 'request' | 'key' | 'org' | 'visitor';

const subjects: readonly (readonly [Subject, string])[] = [
  ['request', 'A request that was made'],
  ['org', 'An organisation'],
  ['key', 'A key'],
  ['visitor', 'A visitor'],
];
const kinds = [
  ['chat', 'Chat completions'],
  ['messages', 'Messages'],
  ['embeddings', 'Embeddings'],
  ['models', 'List of models'],
] as const;
/** Suggestions that a field offers at most; any other value can be typed. */
const suggestionsMax = 200;

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
      <Field name="Who asks">
        {(id) => (
          <select
            id={id}
            name="subject"
            value={subject}
            onChange={({ currentTarget }) => setSubject(currentTarget.value as Subject)}
          >
            {subjects
              .filter(([one]) => one !== 'visitor' || isOperator())
              .map(([one, text]) => (
                <option key={one} value={one}>
                  {text}
                </option>
              ))}
          </select>
        )}
      </Field>
      {subject === 'request' ? <RequestField asked={asked} /> : null}
      {subject === 'key' ? <KeyField asked={asked} /> : null}
      {subject === 'org' ? <OrganisationField asked={asked} /> : null}
      {subject === 'request' ? null : <Details asked={asked} />}
      <Field name="Compare with">
        {(id) => (
          <input
            id={id}
            name="diff"
            type="text"
            autocomplete="off"
            defaultValue={asked.diff ?? ''}
            placeholder="position, time or 10m"
          />
        )}
      </Field>
      <button type="submit" class="button primary">
        Explain
      </button>
    </form>
  );
}

interface FieldProps {
  readonly name: string;
  readonly children: (id: string) => ComponentChildren;
}

function Field({ name, children }: FieldProps) {
  const id = useId();
  return (
    <label class="field" for={id}>
      <span>{name}</span>
      {children(id)}
    </label>
  );
}

function RequestField({ asked }: { readonly asked: Asked }) {
  return (
    <Field name="Request id">
      {(id) => (
        <input
          id={id}
          name="request"
          type="text"
          required
          pattern="req_[0-9a-f]{32}"
          autocomplete="off"
          spellcheck={false}
          defaultValue={asked.request ?? ''}
          placeholder="req_…, the x-request-id of the answer"
          title="req_ and 32 hexadecimal digits, from the header x-request-id of the answer"
        />
      )}
    </Field>
  );
}

function KeyField({ asked }: { readonly asked: Asked }) {
  const organisation = organisationInScope();
  const keys = useRead<AdminResponse<'GET /keys'>>(withQuery('/keys', { organisation })).data?.items ?? [];
  return (
    <Field name="Key id">
      {(id) => (
        <>
          <input
            id={id}
            name="key"
            type="text"
            required
            autocomplete="off"
            list="explain-keys"
            defaultValue={asked.key ?? ''}
            placeholder="key-…"
          />
          <datalist id="explain-keys">
            {keys.slice(-suggestionsMax).map(({ id, name }) => (
              <option key={id} value={id} label={name} />
            ))}
          </datalist>
        </>
      )}
    </Field>
  );
}

function OrganisationField({ asked }: { readonly asked: Asked }) {
  const organisations = useOrganisations();
  const chosen = asked.org ?? organisationInScope();
  return (
    <Field name="Organisation">
      {(id) => (
        <select id={id} name="org">
          {organisations.map(({ id, name }) => (
            <option key={id} value={id} selected={id === chosen}>
              {name}
            </option>
          ))}
        </select>
      )}
    </Field>
  );
}

function Details({ asked }: { readonly asked: Asked }) {
  const models =
    useRead<AdminResponse<'GET /models'>>(isOperator() ? '/models' : undefined).data?.items ?? [];
  const organisation = organisationInScope();
  const stacks =
    useRead<AdminResponse<'GET /stacks'>>(withQuery('/stacks', { organisation })).data?.items ?? [];
  const hosts = ['shared', ...stacks.map(({ id }) => id)];
  const others = asked.host !== undefined && !hosts.includes(asked.host) ? [asked.host] : [];
  return (
    <>
      <Field name="Model">
        {(id) => (
          <>
            <input
              id={id}
              name="model"
              type="text"
              autocomplete="off"
              list="explain-models"
              defaultValue={asked.model ?? ''}
              placeholder="empty: all of them"
            />
            <datalist id="explain-models">
              {models.slice(0, suggestionsMax).map(({ id }) => (
                <option key={id} value={id} />
              ))}
            </datalist>
          </>
        )}
      </Field>
      <Field name="Host">
        {(id) => (
          <select id={id} name="host">
            {[...hosts, ...others].map((host) => (
              <option key={host} value={host} selected={host === (asked.host ?? 'shared')}>
                {host === 'shared' ? 'the shared host' : host}
              </option>
            ))}
          </select>
        )}
      </Field>
      <Field name="Kind">
        {(id) => (
          <select id={id} name="path">
            {kinds.map(([kind, text]) => (
              <option key={kind} value={kind} selected={kind === (asked.path ?? 'chat')}>
                {text}
              </option>
            ))}
          </select>
        )}
      </Field>
      <Field name="Prompt tokens">
        {(id) => (
          <input
            id={id}
            name="prompt"
            type="number"
            min={0}
            defaultValue={asked.prompt ?? ''}
            placeholder="1"
          />
        )}
      </Field>
      <Field name="Tokens asked for">
        {(id) => (
          <input id={id} name="max" type="number" min={0} defaultValue={asked.max ?? ''} placeholder="none" />
        )}
      </Field>
    </>
  );
}
