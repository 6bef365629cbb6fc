/** A native modal dialog: the browser traps the focus, closes it with Esc, and gives the focus back. */
import type { ComponentChildren } from 'preact';
import { useEffect, useId, useRef, useState } from 'preact/hooks';
import { ApiFailure } from '../lib/api.ts';
import { Failure } from './parts.tsx';

export interface DialogProps {
  readonly title: string;
  readonly onClose: () => void;
  readonly children: ComponentChildren;
}

export function Dialog({ title, onClose, children }: DialogProps) {
  const element = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    element.current?.showModal();
  }, []);
  return (
    <dialog ref={element} aria-labelledby={id} onClose={onClose}>
      <div class="dialog-head">
        <h2 id={id}>{title}</h2>
        <button type="button" class="icon" aria-label="Close" onClick={() => element.current?.close()}>
          ✕
        </button>
      </div>
      {children}
    </dialog>
  );
}

/** One write at a time, with what went wrong. */
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
      .catch((error: unknown) =>
        setFailure(error instanceof ApiFailure ? error : new ApiFailure(0, 'Failed', String(error))),
      )
      .finally(() => setBusy(false));
  };
  return { isBusy, failure, run };
}

export interface ConfirmProps {
  readonly title: string;
  readonly children: ComponentChildren;
  /** On the button. */
  readonly action: string;
  /** Must be typed first. */
  readonly name?: string;
  readonly work: () => Promise<void>;
  readonly onClose: () => void;
}

/** Asks before something that cannot be undone. */
export function Confirm({ title, children, action, name, work, onClose }: ConfirmProps) {
  const { isBusy, failure, run } = useWork();
  const [typed, setTyped] = useState('');
  const submit = (event: Event): void => {
    event.preventDefault();
    run(async () => {
      await work();
      onClose();
    });
  };
  return (
    <Dialog title={title} onClose={onClose}>
      <form onSubmit={submit}>
        {children}
        {name === undefined ? null : <TypedName name={name} typed={typed} onType={setTyped} />}
        {failure ? <Failure failure={failure} /> : null}
        <div class="dialog-actions">
          <button type="button" class="button" onClick={onClose}>
            Cancel
          </button>
          <button
            type="submit"
            class="button danger"
            disabled={isBusy || (name !== undefined && typed !== name)}
          >
            {action}
          </button>
        </div>
      </form>
    </Dialog>
  );
}

export interface FormDialogProps extends DialogProps {
  /** On the button. */
  readonly action: string;
  readonly work: (fields: FormData) => Promise<void>;
}

/** Fields, and a button that sends them; it closes nothing by itself. */
export function FormDialog({ title, action, work, onClose, children }: FormDialogProps) {
  const { isBusy, failure, run } = useWork();
  const submit = (event: SubmitEvent): void => {
    event.preventDefault();
    const fields = new FormData(event.currentTarget as HTMLFormElement);
    run(() => work(fields));
  };
  return (
    <Dialog title={title} onClose={onClose}>
      <form onSubmit={submit}>
        {children}
        {failure ? <Failure failure={failure} /> : null}
        <div class="dialog-actions">
          <button type="button" class="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" class="button primary" disabled={isBusy}>
            {action}
          </button>
        </div>
      </form>
    </Dialog>
  );
}

export interface TypedNameProps {
  readonly name: string;
  readonly typed: string;
  readonly onType: (text: string) => void;
}

export function TypedName({ name, typed, onType }: TypedNameProps) {
  return (
    <label class="field">
      <span>
        Type <strong>{name}</strong> to confirm
      </span>
      <input
        type="text"
        aria-label="Name to confirm"
        autocomplete="off"
        value={typed}
        onInput={({ currentTarget }) => onType(currentTarget.value)}
      />
    </label>
  );
}
