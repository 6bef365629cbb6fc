/** Shows the conversation so far. While an answer grows, the view follows its end unless the reader has scrolled up. */
import type { ComponentChildren, JSX } from 'preact';
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { Progress } from './conversation.ts';
import { CopyButton } from './copy-button.tsx';
import { ExplainLink } from './refusal.tsx';
import type { ShownMessage } from './use-conversation.ts';

/** Distance from the end in pixels, up to which the view follows the answer. */
const nearPixels = 60;

/** Attributes of the scrolling region, which must be reachable by keyboard. */
const scrolled = { tabIndex: 0, role: 'log', 'aria-label': 'Conversation' } as const;

export interface MessagesProps {
  readonly messages: readonly ShownMessage[];
  readonly isBusy: boolean;
  readonly console: string | undefined;
  /** Requests another answer to the last message. */
  readonly onAgain: () => void;
  /** Content to show below the messages, or instead of them if there are none. */
  readonly children: ComponentChildren;
}

export function Messages({ messages, isBusy, console, onAgain, children }: MessagesProps): JSX.Element {
  const box = useRef<HTMLElement>(null);
  const isAtEnd = useRef(true);
  const last = messages.length - 1;
  useLayoutEffect(() => {
    const element = box.current;
    if (element && isAtEnd.current) element.scrollTop = element.scrollHeight;
  });
  // The view always scrolls to a new message that the user has sent.
  useLayoutEffect(() => {
    isAtEnd.current = true;
  }, [messages.length]);
  return (
    <section
      class="messages"
      aria-busy={isBusy}
      {...scrolled}
      ref={box}
      onScroll={({ currentTarget: { scrollHeight, scrollTop, clientHeight } }) => {
        isAtEnd.current = scrollHeight - scrollTop - clientHeight < nearPixels;
      }}
    >
      <div class="column stack">
        {messages.map((message, at) => (
          <Turn
            key={at}
            message={message}
            console={console}
            isGrowing={isBusy && at === last}
            onAgain={at === last && !isBusy ? onAgain : undefined}
          />
        ))}
        {children}
      </div>
    </section>
  );
}

interface TurnProps {
  readonly message: ShownMessage;
  readonly console: string | undefined;
  readonly isGrowing: boolean;
  /** Requests another answer. Undefined unless this is the last answer. */
  readonly onAgain: (() => void) | undefined;
}

/** Shows one message. It is drawn again only if its content has changed. */
function Turn({ message, console, isGrowing, onAgain }: TurnProps): JSX.Element {
  const { role, content, progress } = message;
  const again = useRef(onAgain);
  again.current = onAgain;
  const hasAgain = onAgain !== undefined;
  return useMemo(() => {
    if (role === 'user')
      return (
        <article class="turn you">
          <h2 class="visually-hidden">You</h2>
          <p>{content}</p>
        </article>
      );
    return (
      <article class="turn answer stack">
        <h2 class="visually-hidden">Answer</h2>
        {content === '' && isGrowing ? <p>…</p> : <AnswerText text={content} />}
        {isGrowing ? null : (
          <div class="turn-foot row">
            {content === '' ? null : <CopyButton text={content} what="answer" />}
            {hasAgain ? (
              <button type="button" class="button quiet" onClick={() => again.current?.()}>
                Ask again<span class="visually-hidden"> for another answer</span>
              </button>
            ) : null}
            {progress && <Figures progress={progress} console={console} />}
          </div>
        )}
      </article>
    );
  }, [message, console, isGrowing, hasAgain]);
}

/** The parser is larger than the page, so it is loaded separately. Until it arrives, answers are shown as plain text. */
const loading = import('./markdown.tsx').catch(() => undefined);

function AnswerText({ text }: { readonly text: string }): JSX.Element {
  const [Markdown, setMarkdown] = useState<typeof import('./markdown.tsx').Markdown>();
  useEffect(() => {
    void loading.then((loaded) => setMarkdown(() => loaded?.Markdown));
  }, []);
  return Markdown ? <Markdown text={text} /> : <p>{text}</p>;
}

function Figures({
  progress: { firstTokenMs, tokensPerSecond, requestId },
  console,
}: {
  readonly progress: Progress;
  readonly console: string | undefined;
}): JSX.Element {
  const figures = [
    ...(firstTokenMs === undefined ? [] : [`first token after ${Math.round(firstTokenMs)} ms`]),
    ...(tokensPerSecond === undefined ? [] : [`${tokensPerSecond.toFixed(1)} tokens/s`]),
  ];
  return (
    <span class="muted small">
      {figures.join(' · ')} <ExplainLink console={console} requestId={requestId} />
    </span>
  );
}
