/** Button that copies a text and confirms that it did. */
import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { copyText } from '../lib/clipboard.ts';

const shownMs = 1600;

export interface CopyButtonProps {
  readonly text: string;
  /** Description of the copied text, for screen readers. */
  readonly what: string;
}

export function CopyButton({ text, what }: CopyButtonProps): JSX.Element {
  const [isCopied, setCopied] = useState(false);
  useEffect(() => {
    if (!isCopied) return undefined;
    const timer = setTimeout(() => setCopied(false), shownMs);
    return () => clearTimeout(timer);
  }, [isCopied]);
  const copy = (): void => {
    copyText(text).then(
      () => setCopied(true),
      () => undefined,
    );
  };
  return (
    <button type="button" class="button quiet" onClick={copy}>
      {isCopied ? '✓ Copied' : 'Copy'}
      <span class="visually-hidden"> {what}</span>
    </button>
  );
}
