/** Chooses the moment that a page shows. In the past nothing can be changed, so every write is away until `Live`. */
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { AnswerOf } from '../../schemas/admin.ts';
import { count } from '../lib/format.ts';
import { position } from '../lib/live.ts';
import { readsOfPast, useRead } from '../lib/read.ts';
import { isOperator, me } from '../lib/session.ts';
import { moment, travelTo } from '../lib/travel.ts';
import { Dialog } from './dialog.tsx';
import { RowName } from './name.tsx';
import { Button, Empty, Failure, Loading, State } from './parts.tsx';
import { TimeStrip } from './time-strip.tsx';

/** While the slider is dragged, the page travels on once the last moment was read, but not before and not after so long. */
const restMs = { least: 50, most: 100 };

export function TimeBar() {
  const at = moment();
  const head = Math.max(position.value, me.value?.position ?? 1, 1);
  const [isComparing, setComparing] = useState(false);
  return (
    <section class={at === undefined ? 'time-bar' : 'time-bar past'} aria-label="Time">
      {at === undefined ? (
        <State tone="good">Now</State>
      ) : (
        <State tone="info">
          As of {/^\d+$/.test(at) ? `position ${count(Number(at))}` : at}; changes are off
        </State>
      )}
      <span class="position">
        <PositionSlider at={at} head={head} />
      </span>
      <MomentField key={at ?? ''} at={at} />
      {at === undefined ? null : (
        <>
          {isOperator() ? <Button onClick={() => setComparing(true)}>Compare with now</Button> : null}
          <Button look="primary" onClick={() => travelTo(undefined)}>
            Live
          </Button>
        </>
      )}
      {isOperator() ? <TimeStrip at={at} head={head} /> : null}
      {isComparing && at !== undefined ? <Comparison from={at} onClose={() => setComparing(false)} /> : null}
    </section>
  );
}

function PositionSlider({ at, head }: { readonly at: string | undefined; readonly head: number }) {
  const place = at !== undefined && /^\d+$/.test(at) ? Number(at) : head;
  const [dragged, setDragged] = useState<number | undefined>();
  const travelledMs = useRef(Number.NEGATIVE_INFINITY);
  const isReading = readsOfPast.value > 0;
  useLayoutEffect(() => {
    if (dragged === undefined) return undefined;
    const travel = (): void => {
      travelledMs.current = performance.now();
      travelTo(dragged >= head ? undefined : String(dragged));
      setDragged(undefined);
    };
    const waitMs = travelledMs.current + (isReading ? restMs.most : restMs.least) - performance.now();
    if (waitMs <= 0) {
      travel();
      return undefined;
    }
    const timer = setTimeout(travel, waitMs);
    return () => clearTimeout(timer);
  }, [dragged, isReading]);
  return (
    <input
      type="range"
      aria-label="Position"
      min={1}
      max={head}
      value={dragged ?? place}
      onInput={({ currentTarget }) => setDragged(Number(currentTarget.value))}
    />
  );
}

function MomentField({ at }: { readonly at: string | undefined }) {
  const submit = (event: SubmitEvent): void => {
    event.preventDefault();
    const wanted = String(new FormData(event.currentTarget as HTMLFormElement).get('moment')).trim();
    travelTo(wanted === '' ? undefined : wanted);
  };
  return (
    <form onSubmit={submit}>
      <input
        name="moment"
        type="text"
        class="moment"
        aria-label="Position or time"
        placeholder="position, time or 10m"
        autocomplete="off"
        defaultValue={at ?? ''}
      />
    </form>
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

function Changes({ found: { items, from, to, truncated } }: { readonly found: AnswerOf<'changes.get'> }) {
  if (items.length === 0)
    return <Empty title={`Nothing differs between ${count(from)} and ${count(to)}`}>{null}</Empty>;
  return (
    <>
      <p class="muted">
        From position {count(from)} to {count(to)}
        {truncated ? ', the first of them' : ''}
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
const words = { create: 'new', change: 'changed', remove: 'gone' } as const;

export interface FieldsProps {
  readonly fields: AnswerOf<'changes.get'>['items'][number]['fields'];
}

export function Fields({ fields }: FieldsProps) {
  return (
    <ul class="fields">
      {fields.map(({ field, before, after }) => (
        <li key={field}>
          {field}: <del>{String(before ?? 'none')}</del> → <ins>{String(after ?? 'none')}</ins>
        </li>
      ))}
    </ul>
  );
}
