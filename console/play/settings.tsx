/** Dialog in which a visitor chooses the model, parameters and an API key, and sees the request as code. */
import type { ComponentChildren, JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { KeyState } from './api.ts';
import type { Parameters, TurnTarget } from './conversation.ts';
import { CopyButton } from './copy-button.tsx';
import { type Language, languages, renderCode } from './view-as.ts';

type Stacks = KeyState['stacks'];

/** Value of an option in the model field: the model, preceded by any stack and a space, which ids cannot contain. */
function optionValue({ model, stack }: TurnTarget): string {
  return stack === undefined ? model : `${stack.id} ${model}`;
}

function parseTarget(value: string, stacks: Stacks): TurnTarget {
  const [first = '', second] = value.split(' ');
  if (second === undefined) return { model: first };
  return { model: second, stack: stacks.find(({ id }) => id === first) };
}

export function ModelField({
  models,
  stacks,
  value,
  onChange,
}: {
  readonly models: readonly string[];
  readonly stacks: Stacks;
  readonly value: TurnTarget;
  readonly onChange: (target: TurnTarget) => void;
}): JSX.Element {
  return (
    <select
      class="model"
      aria-label="Model"
      value={optionValue(value)}
      onChange={({ currentTarget }) => onChange(parseTarget(currentTarget.value, stacks))}
    >
      {models.map((model) => (
        <option key={model} value={model}>
          {model}
        </option>
      ))}
      {stacks.map((stack) => (
        <optgroup key={stack.id} label={stack.id}>
          {stack.models.map((model) => (
            <option key={model} value={optionValue({ model, stack })}>
              {model} on {stack.id}
            </option>
          ))}
        </optgroup>
      ))}
    </select>
  );
}

export interface SettingsProps {
  readonly onClose: () => void;
  readonly children: ComponentChildren;
}

/** Native dialog. The browser traps the focus, closes the dialog on Escape and restores the focus. */
export function Settings({ onClose, children }: SettingsProps): JSX.Element {
  const element = useRef<HTMLDialogElement>(null);
  useEffect(() => element.current?.showModal(), []);
  return (
    <dialog ref={element} aria-label="Settings" onClose={onClose}>
      <div class="dialog-head ends">
        <h2>Settings</h2>
        <button type="button" class="button quiet" onClick={() => element.current?.close()}>
          Done
        </button>
      </div>
      {children}
    </dialog>
  );
}

export function ParameterFields({
  value,
  onChange,
}: {
  readonly value: Parameters;
  readonly onChange: (parameters: Parameters) => void;
}): JSX.Element {
  const number = (text: string): number | undefined => (text === '' ? undefined : Number(text));
  return (
    <fieldset>
      <legend>Parameters</legend>
      <label class="field">
        System prompt
        <textarea
          rows={2}
          maxLength={2000}
          value={value.system}
          onInput={({ currentTarget }) => onChange({ ...value, system: currentTarget.value })}
        />
      </label>
      <label class="field">
        Maximum tokens
        <input
          type="number"
          min={1}
          value={value.maxTokens ?? ''}
          onInput={({ currentTarget }) => onChange({ ...value, maxTokens: number(currentTarget.value) })}
        />
      </label>
      <label class="field">
        Temperature
        <input
          type="number"
          min={0}
          max={2}
          step={0.1}
          value={value.temperature ?? ''}
          onInput={({ currentTarget }) => onChange({ ...value, temperature: number(currentTarget.value) })}
        />
      </label>
    </fieldset>
  );
}

export function KeyField({
  organisation,
  onUse,
  onForget,
}: {
  readonly organisation: string | undefined;
  readonly onUse: (key: string) => Promise<void>;
  readonly onForget: () => void;
}): JSX.Element {
  const [text, setText] = useState('');
  const [problem, setProblem] = useState('');
  const use = async (): Promise<void> => {
    try {
      await onUse(text.trim());
      setText('');
      setProblem('');
    } catch (error) {
      setProblem(error instanceof Error ? error.message : 'The key was not accepted.');
    }
  };
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        void use();
      }}
    >
      <fieldset>
        <legend>Models of your organisation</legend>
        <label class="field">
          API key
          <input
            type="password"
            autocomplete="off"
            value={text}
            onInput={({ currentTarget }) => setText(currentTarget.value)}
          />
        </label>
        {problem !== '' && <p role="alert">{problem}</p>}
        <p class="muted small">The key stays in the memory of this tab.</p>
        <div class="row">
          <button class="button" type="submit" disabled={text.trim() === ''}>
            Use key
          </button>
          {organisation !== undefined && (
            <button class="button" type="button" onClick={onForget}>
              Forget key
            </button>
          )}
        </div>
      </fieldset>
    </form>
  );
}

export function ViewAs({
  target,
  body,
}: {
  readonly target: TurnTarget;
  readonly body: Record<string, unknown>;
}): JSX.Element {
  const [language, setLanguage] = useState<Language>('curl');
  const code = renderCode(language, target, body);
  return (
    <fieldset>
      <legend>View as code</legend>
      <div class="row">
        {languages.map((name) => (
          <button
            class="button"
            key={name}
            type="button"
            aria-pressed={name === language}
            onClick={() => setLanguage(name)}
          >
            {name}
          </button>
        ))}
        <CopyButton text={code} what="code" />
      </div>
      <section class="code" aria-label="Code">
        <pre>{code}</pre>
      </section>
    </fieldset>
  );
}
