/** What a visitor may set: the model, parameters, a key; and the request as code. */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import type { KeyState } from './api.ts';
import type { Parameters, TurnTarget } from './conversation.ts';
import { codeOf, type Language, languages } from './view-as.ts';

type Stacks = KeyState['stacks'];

/** Ids of models have no space. */
function optionOf({ model, stack }: TurnTarget): string {
  return stack === undefined ? model : `${stack.id} ${model}`;
}

function targetOf(value: string, stacks: Stacks): TurnTarget {
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
    <label>
      Model
      <select
        value={optionOf(value)}
        onChange={({ currentTarget }) => onChange(targetOf(currentTarget.value, stacks))}
      >
        {models.map((model) => (
          <option key={model} value={model}>
            {model}
          </option>
        ))}
        {stacks.map((stack) => (
          <optgroup key={stack.id} label={stack.id}>
            {stack.models.map((model) => (
              <option key={model} value={optionOf({ model, stack })}>
                {model} on {stack.id}
              </option>
            ))}
          </optgroup>
        ))}
      </select>
    </label>
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
    <details>
      <summary>Parameters</summary>
      <div>
        <label>
          System prompt
          <textarea
            rows={2}
            maxLength={2000}
            value={value.system}
            onInput={({ currentTarget }) => onChange({ ...value, system: currentTarget.value })}
          />
        </label>
        <label>
          Maximum tokens
          <input
            type="number"
            min={1}
            value={value.maxTokens ?? ''}
            onInput={({ currentTarget }) => onChange({ ...value, maxTokens: number(currentTarget.value) })}
          />
        </label>
        <label>
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
      </div>
    </details>
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
    <details>
      <summary>Use an API key</summary>
      <div>
        <label>
          API key
          <input
            type="password"
            autocomplete="off"
            value={text}
            onInput={({ currentTarget }) => setText(currentTarget.value)}
          />
        </label>
        {problem !== '' && <p role="alert">{problem}</p>}
        <p class="soft">It is kept in the memory of this tab alone.</p>
        <div class="buttons">
          <button type="button" onClick={() => void use()}>
            Use key
          </button>
          {organisation !== undefined && (
            <button type="button" onClick={onForget}>
              Forget key
            </button>
          )}
        </div>
      </div>
    </details>
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
  return (
    <details>
      <summary>View as code</summary>
      <div>
        <div class="buttons">
          {languages.map((name) => (
            <button
              key={name}
              type="button"
              aria-pressed={name === language}
              onClick={() => setLanguage(name)}
            >
              {name}
            </button>
          ))}
        </div>
        <section class="code" aria-label="Code">
          <pre>{codeOf(language, target, body)}</pre>
        </section>
      </div>
    </details>
  );
}
