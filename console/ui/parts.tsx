/**
 * Small components for all pages: states, buttons, copyable texts, cards and failures. The room `console/ui` contains
 * reusable components. They must not know particular pages. They must show a state by word and shape, never by colour alone.
 */
import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import type { ApiFailure } from '../lib/api.ts';
import { copyText } from '../lib/clipboard.ts';
import { sentence } from '../lib/format.ts';
import { Icon, type IconName } from './icons.tsx';

export type Tone = 'good' | 'warn' | 'bad' | 'idle' | 'info';

const shapes: Readonly<Record<Tone, string>> = { good: '✓', warn: '▲', bad: '✕', idle: '○', info: '◆' };

/** Shows a state as a word with a shape and a colour. */
export function State({ tone, children }: { readonly tone: Tone; readonly children: ComponentChildren }) {
  return (
    <span class={`state ${tone}`}>
      <span aria-hidden="true" class="shape">
        {shapes[tone]}
      </span>
      {children}
    </span>
  );
}

export function Badge({ children }: { readonly children: ComponentChildren }) {
  return <span class="badge">{children}</span>;
}

export interface CopyProps {
  readonly text: string;
  readonly label: string;
  readonly icon?: IconName;
  /** Whether the button shows only its icon. The label is then only for screen readers. */
  readonly isIcon?: boolean;
  readonly class?: string;
  readonly title?: string;
  readonly onCopied?: () => void;
}

export function Copy({ text, label, icon = 'copy', isIcon, class: className, title, onCopied }: CopyProps) {
  const [isCopied, setCopied] = useState(false);
  useEffect(() => {
    if (!isCopied) return undefined;
    const timer = setTimeout(() => setCopied(false), 1600);
    return () => clearTimeout(timer);
  }, [isCopied]);
  const onClick = (): void => {
    copyText(text).then(
      () => {
        setCopied(true);
        onCopied?.();
      },
      () => undefined,
    );
  };
  return (
    <button
      type="button"
      class={className ?? (isIcon ? 'icon' : 'button quiet')}
      onClick={onClick}
      title={title ?? text}
    >
      <Icon name={icon} />
      {isIcon ? <span class="visually-hidden">{label}</span> : label}
      <span class="copied" role="status">
        {isCopied ? '✓ copied' : ''}
      </span>
    </button>
  );
}

export interface ButtonProps {
  readonly look?: 'primary' | 'primary block' | 'block' | 'quiet';
  readonly onClick: (() => void) | undefined;
  readonly disabled?: boolean;
  readonly title?: string;
  readonly 'aria-label'?: string;
  readonly children: ComponentChildren;
}

/** Button that starts an action. Forms have submit buttons of their own. */
export function Button({ look, ...button }: ButtonProps) {
  return <button type="button" class={look === undefined ? 'button' : `button ${look}`} {...button} />;
}

export interface IdProps {
  readonly id: string;
  /** Label of the copy button. Defaults to a label that contains the id. */
  readonly label?: string;
}

/** Shows an id, address or command with a button that copies it. */
export function Id({ id, label = `Copy ${id}` }: IdProps) {
  return (
    <span class="id">
      <code title={id}>{id}</code>
      <Copy text={id} label={label} isIcon />
    </span>
  );
}

export function Failure({
  failure,
  onRetry,
}: {
  readonly failure: ApiFailure;
  readonly onRetry?: () => void;
}) {
  return (
    <div class="notice bad" role="alert">
      <p>
        <strong>{sentence(failure.message)}</strong>
      </p>
      {failure.next === undefined ? null : <p>{sentence(failure.next)}</p>}
      {onRetry ? <Button onClick={onRetry}>Try again</Button> : null}
    </div>
  );
}

export interface EmptyProps {
  readonly title: string;
  readonly children?: ComponentChildren;
}

export function Empty({ title, children }: EmptyProps) {
  return (
    <div class="empty stack">
      <p class="empty-title">{title}</p>
      {children}
    </div>
  );
}

export function NoOrganisations() {
  return (
    <Empty title="There are no organisations yet">
      <p>
        Create the first one: <code>headgate org create acme --name Acme --tier TIER</code>
      </p>
    </Empty>
  );
}

export function Loading() {
  return (
    <div class="loading stack" role="status">
      <span class="visually-hidden">Loading</span>
      <div class="bar" />
      <div class="bar" />
      <div class="bar" />
    </div>
  );
}

export interface CardProps {
  readonly title: string;
  /** Content to show beside the title. */
  readonly more?: ComponentChildren;
  readonly isWide?: boolean | undefined;
  /** Accessible name of the card, if it is a region that needs one. */
  readonly label?: string;
  readonly children: ComponentChildren;
}

export function Card({ title, more, isWide, label, children }: CardProps) {
  return (
    <section class={isWide ? 'card wide' : 'card'} aria-label={label}>
      {more === undefined ? (
        <h2>{title}</h2>
      ) : (
        <div class="card-head ends">
          <h2>{title}</h2>
          {more}
        </div>
      )}
      {children}
    </section>
  );
}

export function Figures({ children }: { readonly children: ComponentChildren }) {
  return <div class="figures">{children}</div>;
}

export interface FigureProps {
  readonly name: string;
  readonly value: string;
  /** Link to the page with details about the figure. */
  readonly href?: string;
}

export function Figure({ name, value, href }: FigureProps) {
  return (
    <div class="figure">
      <span>{href === undefined ? name : <a href={href}>{name}</a>}</span>
      <strong>{value}</strong>
    </div>
  );
}

/** Shows labels and values as a definition list. Undefined values are left out. */
export function Facts({ items }: { readonly items: Readonly<Record<string, ComponentChildren>> }) {
  const known = Object.entries(items).filter(([, value]) => value !== undefined);
  return (
    <dl class="facts stack">
      {known.map(([term, value]) => (
        <div key={term}>
          <dt>{term}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
