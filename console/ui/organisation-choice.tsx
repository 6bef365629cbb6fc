/** Chooses the organisation of a page; it stands in the address. Nothing where there is no choice. */
import { computed, signal } from '@preact/signals';
import { useEffect, useState } from 'preact/hooks';
import type { CommandName } from '../../schemas/admin.ts';
import { pageRows } from '../../schemas/page-rows.ts';
import { useRead } from '../lib/read.ts';
import { setQuery } from '../lib/router.ts';
import { organisationInScope } from '../lib/scope.ts';
import { isOperator, may, me } from '../lib/session.ts';
import { Choice, Field } from './field.tsx';

export interface OrganisationChoiceProps {
  /** Where there is no page for all together: the one that is shown while the address names none. */
  readonly shown?: string | undefined;
}

/** Of more organisations none finds one in a list: they are searched. */
const listedMax = 100;
/** Offered by a search. */
const offeredMax = 20;

export function OrganisationChoice({ shown }: OrganisationChoiceProps) {
  const organisations = useOrganisations();
  const inScope = organisationInScope() ?? shown ?? '';
  if (organisations.length < (isOperator() ? 1 : 2)) return null;
  if (organisations.length > listedMax) return <OrganisationSearch key={inScope} inScope={inScope} />;
  // One of the past may be gone.
  const isGone = inScope !== '' && !organisations.some(({ id }) => id === inScope);
  return (
    <label class="choice">
      <span>Organisation</span>
      <select value={inScope} onChange={({ currentTarget }) => setQuery({ org: currentTarget.value })}>
        {isOperator() && shown === undefined ? <option value="">All</option> : null}
        {isGone ? <option value={inScope}>{inScope}</option> : null}
        {organisations.map(({ id, name }) => (
          <option key={id} value={id}>
            {name}
          </option>
        ))}
      </select>
    </label>
  );
}

/** The id is typed or chosen among those that contain what was typed; an empty field is all of them. */
function OrganisationSearch({ inScope }: { readonly inScope: string }) {
  const [text, setText] = useState('');
  const found = useFound(text);
  // Once it is chosen or left, because an id may be the beginning of another.
  const choose = (typed: string): void => {
    const one = found.find(({ id, name }) => id === typed || name === typed);
    if (typed === '' || one !== undefined) setQuery({ org: one?.id ?? '', after: '' });
  };
  return (
    <div class="choice">
      <Field
        label="Organisation"
        defaultValue={inScope}
        placeholder="all: type to search"
        spellcheck={false}
        suggestions={found.map(({ id, name }) => [id, name])}
        onInput={({ currentTarget }) => setText(currentTarget.value)}
        onChange={({ currentTarget }) => choose(currentTarget.value)}
      />
    </div>
  );
}

interface OrganisationFieldProps {
  readonly name: string;
  readonly chosen: string | undefined;
  /** Only those in which the person may give it. */
  readonly command?: CommandName;
}

/** The same in a form. */
export function OrganisationField({ name, chosen, command }: OrganisationFieldProps) {
  const organisations = useOrganisations().filter(({ id }) => command === undefined || may(command, id));
  const [text, setText] = useState('');
  const found = useFound(text);
  const optionOf = ({ id, name: shown }: Organisation) => [id, shown] as const;
  if (organisations.length <= listedMax)
    return <Choice label="Organisation" name={name} options={organisations.map(optionOf)} chosen={chosen} />;
  return (
    <Field
      label="Organisation"
      name={name}
      required
      defaultValue={chosen ?? ''}
      placeholder="type to search"
      spellcheck={false}
      suggestions={found.map(optionOf)}
      onInput={({ currentTarget }) => setText(currentTarget.value)}
    />
  );
}

interface Organisation {
  readonly id: string;
  readonly name: string;
}

/** As many as one page has, for the operator; their own for a member. */
export function useOrganisations(): readonly Organisation[] {
  const asked = { limit: pageRows.max };
  const { data } = useRead(isOperator() ? 'organisation.list' : undefined, asked, { isOfNow: true });
  useKnown(data?.items);
  return data?.items ?? me.value?.organisations ?? [];
}

/** Those that contain a text, where there are too many to list. */
function useFound(text: string): readonly Organisation[] {
  const asked = { text, limit: offeredMax };
  const { data } = useRead(isOperator() ? 'organisation.list' : undefined, asked, { isOfNow: true });
  useKnown(data?.items);
  if (isOperator()) return data?.items ?? [];
  const own = me.value?.organisations ?? [];
  return own.filter(({ id, name }) => `${id} ${name}`.toLowerCase().includes(text.toLowerCase()));
}

function useKnown(items: readonly Organisation[] | undefined): void {
  useEffect(() => {
    if (items !== undefined)
      known.value = new Map([...known.value, ...items.map(({ id, name }) => [id, name] as const)]);
  }, [items]);
}

/** The names of all that were read. */
const known = signal<ReadonlyMap<string, string>>(new Map());
const names = computed(() => {
  const own = me.value?.organisations ?? [];
  // A member sees the names of their own alone, also where an operator used the page before.
  return new Map([...own.map(({ id, name }) => [id, name] as const), ...(isOperator() ? known.value : [])]);
});

/** The name of an organisation; its id while the name is not known. */
export function organisationName(id: string): string {
  return names.value.get(id) ?? id;
}

/** The same on a page without the list: only this one is read, because of many organisations the list is long. */
export function useOrganisationName(id: string): string {
  const name = organisationName(id);
  const isUnknown = isOperator() && name === id;
  const { data } = useRead(isUnknown ? 'organisation.get' : undefined, { id }, { isOfNow: true });
  return data?.name ?? name;
}
