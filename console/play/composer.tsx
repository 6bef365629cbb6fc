/** Message field. It stays at the end of the page, grows with its text to a few lines, and sends the message on Enter. */
import type { ComponentChildren, JSX } from 'preact';
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks';

const linesMax = 8;

export interface ComposerProps {
  readonly draft: string;
  readonly isBusy: boolean;
  readonly maySend: boolean;
  readonly onDraft: (text: string) => void;
  readonly onSend: () => void;
  readonly onStop: () => void;
  /** Chooser for the model. */
  readonly children: ComponentChildren;
}

export function Composer(props: ComposerProps): JSX.Element {
  const { draft, isBusy, maySend, onDraft, onSend, onStop, children } = props;
  const field = useRef<HTMLTextAreaElement>(null);
  useLayoutEffect(() => {
    const area = field.current;
    if (!area) return;
    area.style.height = 'auto';
    const { lineHeight, paddingTop, paddingBottom } = getComputedStyle(area);
    const most =
      linesMax * Number.parseFloat(lineHeight) +
      Number.parseFloat(paddingTop) +
      Number.parseFloat(paddingBottom);
    area.style.height = `${Math.min(area.scrollHeight, most)}px`;
  }, [draft]);
  useEffect(() => field.current?.focus(), []);
  const onKeyDown = (event: KeyboardEvent): void => {
    // During text composition with an input method (IME), Enter only completes the word.
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    onSend();
  };
  return (
    <form
      class="composer"
      aria-label="Your message"
      onSubmit={(event) => {
        event.preventDefault();
        onSend();
      }}
    >
      <textarea
        ref={field}
        aria-label="Message"
        placeholder="Message (Enter sends, Shift+Enter adds a line)"
        rows={1}
        maxLength={8000}
        value={draft}
        onInput={({ currentTarget }) => onDraft(currentTarget.value)}
        onKeyDown={onKeyDown}
      />
      <div class="composer-foot ends">
        {children}
        {isBusy ? (
          <button type="button" class="button primary" onClick={onStop}>
            Stop
          </button>
        ) : (
          <button type="submit" class="button primary" disabled={!maySend || draft.trim() === ''}>
            Send
          </button>
        )}
      </div>
    </form>
  );
}
