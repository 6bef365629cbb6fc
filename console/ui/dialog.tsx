/** Native modal dialog. The browser traps the focus, closes the dialog on Escape and restores the focus. */
import type { ComponentChildren } from 'preact';
import { useId, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { type ApiFailure, toFailure } from '../lib/api.ts';
import { Field } from './field.tsx';
import { Copy, Failure } from './parts.tsx';

export interface DialogProps {
  readonly title: string;
  readonly onClose: () => void;
  /** Selector of the element that gets the focus when the dialog opens. Defaults to the first field. */
  readonly focus?: string;
  /** Whether the dialog must stay open, so that neither Escape nor ✕ closes it. */
  readonly isLocked?: boolean;
  readonly children: ComponentChildren;
}

const firstField = 'form :is(input, select, textarea)';

export function Dialog({ title, onClose, focus = firstField, isLocked = false, children }: DialogProps) {
  const element = useRef<HTMLDialogElement>(null);
  const id = useId();
  // The dialog opens before the next paint, so that a user who types at once loses no characters.
  useLayoutEffect(() => {
    element.current?.showModal();
    element.current?.querySelector<HTMLElement>(focus)?.focus();
  }, []);
  // Preventing `cancel` is not enough, because browsers still close the dialog on a second Escape.
  const keepOpen = (event: KeyboardEvent): void => {
    if (isLocked && event.key === 'Escape') event.preventDefault();
  };
  return (
    <dialog
      ref={element}
      aria-labelledby={id}
      onClose={onClose}
      onKeyDown={keepOpen}
      onCancel={(event) => isLocked && event.preventDefault()}
    >
      <div class="dialog-head ends">
        <h2 id={id}>{title}</h2>
        {isLocked ? null : (
          <button type="button" class="icon" aria-label="Close" onClick={() => element.current?.close()}>
            ✕
          </button>
        )}
      </div>
      {children}
    </dialog>
  );
}

/** Runs one write at a time and remembers its failure. */
export function useWork(): {
  readonly isBusy: boolean;
  readonly failure: ApiFailure | undefined;
  run(work: () => Promise<void>): void;
} {
  const [isBusy, setBusy] = useState(false);
  const [failure, setFailure] = useState<ApiFailure | undefined>();
  const run = (work: () => Promise<void>): void => {
    if (isBusy) return;
    setBusy(true);
    setFailure(undefined);
    work()
      .catch((error: unknown) => setFailure(toFailure(error)))
      .finally(() => setBusy(false));
  };
  return { isBusy, failure, run };
}

export interface FormDialogProps extends DialogProps {
  /** Label of the submit button. */
  readonly action: string;
  readonly work: (fields: FormData) => Promise<void>;
  /** Whether the action cannot be undone. If so, the dialog opens with the focus on Cancel. */
  readonly isDanger?: boolean;
  /** Name that the user must type to confirm. */
  readonly name?: string;
  /** CLI command that does the same as the dialog. */
  readonly cli?: string;
}

/** Dialog with fields and a submit button. It stays open until the caller closes it. */
export function FormDialog(props: FormDialogProps) {
  const { title, action, isDanger = false, name, cli, work, onClose, children } = props;
  const { isBusy, failure, run } = useWork();
  const [typed, setTyped] = useState('');
  const submit = (event: SubmitEvent): void => {
    event.preventDefault();
    const fields = new FormData(event.currentTarget as HTMLFormElement);
    run(() => work(fields));
  };
  return (
    <Dialog title={title} onClose={onClose} {...(isDanger && { focus: '.cancel' })}>
      <form onSubmit={submit}>
        {children}
        {name === undefined ? null : <TypedName name={name} typed={typed} onType={setTyped} />}
        {failure ? <Failure failure={failure} /> : null}
        <div class="dialog-actions row">
          {cli === undefined ? null : <Copy text={cli} label="Copy as CLI" icon="terminal" />}
          <button type="button" class="button cancel" onClick={onClose}>
            Cancel
          </button>
          <button
            type="submit"
            class={isDanger ? 'button danger' : 'button primary'}
            disabled={isBusy || (name !== undefined && typed !== name)}
          >
            {action}
          </button>
        </div>
      </form>
    </Dialog>
  );
}

/** Dialog that asks before an action that cannot be undone, and closes once the action is done. */
export function Confirm({ work, onClose, ...dialog }: Omit<FormDialogProps, 'isDanger'>) {
  const workAndClose = async (fields: FormData): Promise<void> => {
    await work(fields);
    onClose();
  };
  return <FormDialog {...dialog} isDanger work={workAndClose} onClose={onClose} />;
}

interface TypedNameProps {
  readonly name: string;
  readonly typed: string;
  readonly onType: (text: string) => void;
}

function TypedName({ name, typed, onType }: TypedNameProps) {
  return (
    <Field
      label={`Type “${name}” to confirm`}
      aria-label="Name to confirm"
      value={typed}
      onInput={({ currentTarget }) => onType(currentTarget.value)}
    />
  );
}
