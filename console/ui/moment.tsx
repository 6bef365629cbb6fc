/** Lets the user choose the moment that a page shows. A page that shows the past says so and does not allow changes. */
import type { TargetedKeyboardEvent } from 'preact';
import { useState } from 'preact/hooks';
import type { OperationAnswer } from '../../schemas/admin/admin.ts';
import { momentForms } from '../../schemas/admin/moments.ts';
import { count, sentence } from '../lib/format.ts';
import { useRead } from '../lib/read.ts';
import { isOperator } from '../lib/session.ts';
import { moment, travelTo } from '../lib/travel.ts';
import { Dialog } from './dialog.tsx';
import { RowName } from './name.tsx';
import { Button, Empty, Failure, Loading, State } from './parts.tsx';

const momentText = (at: string): string =>
  /^\d+$/.test(at) ? `position ${count(Number(at))}` : /^\d+[smhd]$/.test(at) ? `${at} ago` : at;

/** Chip that names the moment and opens a field to change it. */
export function MomentChip() {
  const at = moment();
  const submit = (event: SubmitEvent): void => {
    event.preventDefault();
    const wanted = String(new FormData(event.currentTarget as HTMLFormElement).get('moment')).trim();
    travelTo(wanted === '' ? undefined : wanted);
  };
  const onKeyDown = ({ key, currentTarget }: TargetedKeyboardEvent<HTMLDetailsElement>): void => {
    if (key !== 'Escape') return;
    currentTarget.open = false;
    currentTarget.querySelector('summary')?.focus();
  };
  return (
    <details
      key={at ?? ''}
      class="moment"
      onKeyDown={onKeyDown}
      onToggle={({ currentTarget }) => currentTarget.open && currentTarget.querySelector('input')?.focus()}
    >
      <summary class="button quiet">
        {at === undefined ? 'Now' : momentText(at)} <span aria-hidden="true">▾</span>
      </summary>
      <form class="row" onSubmit={submit}>
        <input
          name="moment"
          type="text"
          aria-label="Position or time"
          placeholder="10m, 2d or a position"
          title={sentence(momentForms)}
          autocomplete="off"
          defaultValue={at ?? ''}
        />
        <button type="submit" class="button">
          Show
        </button>
      </form>
    </details>
  );
}

/** Notice that the page shows the past, with a button that returns to the present. */
export function PastNotice() {
  const at = moment();
  const [isComparing, setComparing] = useState(false);
  if (at === undefined) return null;
  return (
    <section class="notice past row" aria-label="Time">
      <State tone="info">As of {momentText(at)}. Changes are disabled.</State>
      {isOperator() ? <Button onClick={() => setComparing(true)}>Compare with now</Button> : null}
      <Button look="primary" onClick={() => travelTo(undefined)}>
        Back to now
      </Button>
      {isComparing ? <Comparison from={at} onClose={() => setComparing(false)} /> : null}
    </section>
  );
}

function Comparison({ from, onClose }: { readonly from: string; readonly onClose: () => void }) {
  const { data, failure } = useRead('changes.get', { from });
  return (
    <Dialog title="Then and now" onClose={onClose}>
      {failure ? <Failure failure={failure} /> : null}
      {data ? <Changes found={data} /> : failure ? null : <Loading />}
    </Dialog>
  );
}

function Changes({
  found: { items, from, to, truncated },
}: {
  readonly found: OperationAnswer<'changes.get'>;
}) {
  if (items.length === 0)
    return <Empty title={`Positions ${count(from)} and ${count(to)} do not differ`}>{null}</Empty>;
  return (
    <>
      <p class="muted">
        From position {count(from)} to {count(to)}
        {truncated ? ', first changes only' : ''}
      </p>
      <ul class="rows changes">
        {items.map(({ table, id, action, fields }) => (
          <li key={`${table} ${id}`}>
            <span>
              <RowName table={table} id={id} /> <span class="muted">{table}</span>
            </span>
            <State tone={tones[action]}>{words[action]}</State>
            {action === 'change' ? <Fields fields={fields} /> : null}
          </li>
        ))}
      </ul>
    </>
  );
}

const tones = { create: 'good', change: 'info', remove: 'bad' } as const;
const words = { create: 'new', change: 'changed', remove: 'removed' } as const;

export interface FieldsProps {
  readonly fields: OperationAnswer<'changes.get'>['items'][number]['fields'];
}

export function Fields({ fields }: FieldsProps) {
  return (
    <ul class="fields muted small">
      {fields.map(({ field, before, after }) => (
        <li key={field}>
          {field}: <del>{String(before ?? 'none')}</del> → <ins>{String(after ?? 'none')}</ins>
        </li>
      ))}
    </ul>
  );
}
