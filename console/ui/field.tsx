/** Form fields with labels. */
import type { ComponentChildren, PartialInputHTMLAttributes } from 'preact';
import { useId } from 'preact/hooks';

type FieldOption = readonly [value: string, text: string];

type Attributes = Pick<
  PartialInputHTMLAttributes<HTMLInputElement>,
  | 'aria-label'
  | 'class'
  | 'defaultValue'
  | 'maxLength'
  | 'min'
  | 'name'
  | 'onChange'
  | 'onFocus'
  | 'onInput'
  | 'pattern'
  | 'placeholder'
  | 'readOnly'
  | 'required'
  | 'spellcheck'
  | 'title'
  | 'value'
>;

export interface FieldProps extends Attributes {
  readonly label: ComponentChildren;
  readonly type?: 'text' | 'number';
  readonly hint?: string;
}

export function Field({ label, hint, ...input }: FieldProps) {
  const id = useId();
  return (
    <label class="field" for={id}>
      <span>{label}</span>
      <input id={id} type="text" autocomplete="off" list={undefined} {...input} />
      {hint === undefined ? null : <small>{hint}</small>}
    </label>
  );
}

export interface ChoiceProps {
  readonly label: string;
  readonly name: string;
  readonly options: readonly FieldOption[];
  readonly chosen?: string | undefined;
}

export function Choice({ label, name, options, chosen }: ChoiceProps) {
  const id = useId();
  return (
    <label class="field" for={id}>
      <span>{label}</span>
      <select id={id} name={name}>
        {options.map(([value, text]) => (
          <option key={value} value={value} selected={value === chosen}>
            {text}
          </option>
        ))}
      </select>
    </label>
  );
}

export interface ShownProps {
  readonly label: string;
  readonly value: string;
  readonly class?: string;
}

/** Read-only field whose value can be copied. */
export function Shown(props: ShownProps) {
  return (
    <Field readOnly spellcheck={false} onFocus={({ currentTarget }) => currentTarget.select()} {...props} />
  );
}
