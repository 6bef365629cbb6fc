/** Search field in which the user chooses one of many organisations by name or id. It follows the ARIA combobox pattern. */
import { useId, useState } from 'preact/hooks';
import { count } from '../lib/format.ts';
import { type Offer, type OfferQuery, type Offers, offeredMax, useOffers } from '../lib/offers.ts';
import { organisationName } from '../lib/organisations.ts';

export interface ChooserProps extends Omit<OfferQuery, 'text'> {
  readonly label: string;
  readonly class?: string;
  readonly name?: string;
  readonly chosen?: string | undefined;
  readonly required?: boolean;
  /** Label of the option that chooses nothing. If it is undefined, the user must choose something. */
  readonly none?: string | undefined;
  readonly onChoose?: (id: string) => void;
}

export function Chooser(props: ChooserProps) {
  const { label, name, required } = props;
  const id = useId();
  const chooser = useChooser(props);
  const { value, shown, isOpen, active, items } = chooser;
  return (
    <div class={`chooser ${props.class ?? 'field'}`}>
      <label for={id}>{label}</label>
      <div class="chooser-box">
        <input
          id={id}
          type="text"
          role="combobox"
          autocomplete="off"
          spellcheck={false}
          aria-autocomplete="list"
          aria-expanded={isOpen}
          aria-controls={`${id}-offers`}
          aria-activedescendant={items[active] && isOpen ? `${id}-${active}` : undefined}
          placeholder="Type to search"
          required={required}
          title={value}
          value={shown}
          onFocus={({ currentTarget }) => currentTarget.select()}
          onClick={chooser.open}
          onInput={({ currentTarget }) => chooser.type(currentTarget.value)}
          onKeyDown={chooser.onKeyDown}
          onBlur={chooser.leave}
        />
        {name === undefined ? null : <input type="hidden" name={name} value={value} />}
        {isOpen ? <OfferList id={id} label={label} chooser={chooser} /> : null}
      </div>
    </div>
  );
}

/** Keeps the state of a chooser: the chosen value, the typed text, and the option that Enter selects. */
function useChooser(props: ChooserProps) {
  const { none, onChoose } = props;
  const [value, setValue] = useState(props.chosen ?? '');
  /** Typed text, or undefined while the user is not searching. */
  const [typed, setTyped] = useState<string | undefined>();
  const [isOpen, setOpen] = useState(false);
  const [marked, setMarked] = useState(-1);
  const text = typed ?? '';
  const offers = useOffers({ command: props.command, text }, isOpen);
  const items = none !== undefined && text === '' ? [{ id: '', name: none }, ...offers.items] : offers.items;
  const active = marked === -1 && text !== '' && !offers.isOld ? 0 : marked;
  const close = (): void => {
    setOpen(false);
    setTyped(undefined);
    setMarked(-1);
  };
  const choose = (id: string): void => {
    close();
    setValue(id);
    if (id !== value) onChoose?.(id);
  };
  const type = (now: string): void => {
    setOpen(true);
    setTyped(now);
    setMarked(-1);
  };
  /** A name that was typed in full counts as chosen, even if the option was not selected. */
  const leave = (): void => {
    const named = items.find((each) => text !== '' && (each.id === text || nameOf(each) === text));
    if (named !== undefined) choose(named.id);
    else if (typed === '' && none !== undefined) choose('');
    else close();
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const one = items[active];
    if (step !== undefined) {
      if (isOpen) setMarked(nextIndex(active, step, items.length));
      setOpen(true);
    } else if (event.key === 'Escape' && isOpen) close();
    else if (event.key === 'Enter' && isOpen && one !== undefined) choose(one.id);
    else if (event.key !== 'Enter' || !isOpen) return;
    event.preventDefault();
  };
  const name = value === '' ? (none ?? '') : organisationName(value);
  const open = (): void => setOpen(true);
  return {
    value,
    shown: typed ?? name,
    text,
    isOpen,
    active,
    items,
    offers,
    open,
    type,
    choose,
    leave,
    onKeyDown,
  };
}

/** Returns the index of the next option, wrapping around at the ends, or -1 if there are no options. */
function nextIndex(active: number, step: number, of: number): number {
  if (of === 0) return -1;
  return active === -1 && step === -1 ? of - 1 : (active + step + of) % of;
}

const nameOf = ({ id, name = id }: Offer): string => name;

interface OfferListProps {
  readonly id: string;
  readonly label: string;
  readonly chooser: ReturnType<typeof useChooser>;
}

function OfferList({ id, label, chooser }: OfferListProps) {
  const { text, active, items, offers, choose } = chooser;
  return (
    <div class="offers" aria-busy={offers.isOld}>
      <div id={`${id}-offers`} class="listbox" role="listbox" tabIndex={-1} aria-label={label}>
        {items.map((each, at) => (
          <button
            key={each.id}
            id={`${id}-${at}`}
            type="button"
            role="option"
            tabIndex={-1}
            aria-selected={at === active}
            // Keep the focus in the field when an option is clicked.
            onMouseDown={(event) => event.preventDefault()}
            onClick={() => choose(each.id)}
          >
            {nameOf(each)}
            {each.id === '' || each.id === nameOf(each) ? null : <small> {each.id}</small>}
          </button>
        ))}
      </div>
      <p class="muted" role="status">
        {describeRest(offers, text)}
      </p>
    </div>
  );
}

/** Describes how many matches are not listed. */
function describeRest({ items, isMore, total, isOld }: Offers, text: string): string {
  if (isOld) return '';
  if (items.length === 0) return text === '' ? 'There are none.' : `Nothing matches “${text}”.`;
  if (!isMore) return '';
  const all = total === undefined ? '' : ` of ${count(total)}`;
  return `First ${offeredMax}${all}. Type to find others.`;
}
