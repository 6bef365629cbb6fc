/** The page: a conversation, what is left of the free turns, and what a key opens. */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { type KeyState, keyState, type VisitorState } from './api.ts';
import { bodyOf, type Parameters, type Progress, type TurnTarget } from './conversation.ts';
import { Markdown } from './markdown.tsx';
import { KeyField, ModelField, ParameterFields, ViewAs } from './settings.tsx';
import { type Shown, type TurnFault, useConversation } from './use-conversation.ts';

const noParameters: Parameters = { system: '', maxTokens: undefined, temperature: undefined };

export function App(): JSX.Element {
  const [owner, setOwner] = useState<KeyState & { readonly key: string }>();
  const [chosen, setTarget] = useState<TurnTarget>();
  const [parameters, setParameters] = useState(noParameters);
  const [draft, setDraft] = useState('');
  const { visitor, refresh, ...talk } = useConversation(owner?.key);
  const models = owner?.models ?? visitor?.models ?? [];
  const target = chosen ?? { model: models.find((id) => !/embed/i.test(id)) ?? models[0] ?? '' };
  const preview = [...talk.messages, { role: 'user' as const, content: draft || 'Hello' }];
  const submit = async (): Promise<void> => {
    const content = draft.trim();
    if (content === '' || talk.isBusy) return;
    setDraft('');
    if (!(await talk.ask(target, content, parameters))) setDraft(content);
  };
  return (
    <main class="play">
      <header>
        <h1>Playground</h1>
        <p role="status">{owner ? `Key of ${owner.organisation}` : visitor && turnsText(visitor)}</p>
      </header>
      <Conversation messages={talk.messages} console={visitor?.console} />
      {talk.fault && <Refusal fault={talk.fault} console={visitor?.console} />}
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void submit();
        }}
      >
        <ModelField models={models} stacks={owner?.stacks ?? []} value={target} onChange={setTarget} />
        <MessageFields draft={draft} setDraft={setDraft} isBusy={talk.isBusy} stop={talk.stop} />
      </form>
      <ParameterFields value={parameters} onChange={setParameters} />
      <KeyField
        organisation={owner?.organisation}
        onUse={async (key) => {
          const next = { ...(await keyState(key)), key };
          if (owner !== undefined) talk.clear();
          setOwner(next);
          setTarget(undefined);
        }}
        onForget={() => {
          talk.clear();
          setOwner(undefined);
          setTarget(undefined);
          void refresh();
        }}
      />
      <ViewAs target={target} body={bodyOf(target, preview, parameters)} />
      <p class="soft">
        Messages are not stored. A cookie counts your free turns, and a keyed hash of your network counts
        those of the day.
      </p>
    </main>
  );
}

function MessageFields({
  draft,
  setDraft,
  isBusy,
  stop,
}: {
  readonly draft: string;
  readonly setDraft: (text: string) => void;
  readonly isBusy: boolean;
  readonly stop: () => void;
}): JSX.Element {
  return (
    <>
      <label>
        Message
        <textarea
          rows={4}
          maxLength={8000}
          value={draft}
          onInput={({ currentTarget }) => setDraft(currentTarget.value)}
        />
      </label>
      <div class="buttons">
        <button type="submit" disabled={isBusy}>
          Send
        </button>
        <button type="button" disabled={!isBusy} onClick={stop}>
          Stop
        </button>
      </div>
    </>
  );
}

function turnsText({ turns: { left, limit } }: VisitorState): string {
  return `${left} of ${limit} free turns left`;
}

function Conversation({
  messages,
  console,
}: {
  readonly messages: readonly Shown[];
  readonly console: string | undefined;
}): JSX.Element {
  return (
    <section class="messages" aria-label="Conversation">
      {messages.map(({ role, content, progress }, at) => (
        <article key={at}>
          <h2>{role === 'user' ? 'You' : 'Answer'}</h2>
          {role === 'user' ? <p>{content}</p> : <Markdown text={content} />}
          {progress && <Figures progress={progress} console={console} />}
        </article>
      ))}
    </section>
  );
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
    <p class="soft">
      {figures.join(' · ')} <Explain console={console} requestId={requestId} />
    </p>
  );
}

function Explain({
  console,
  requestId,
}: {
  readonly console: string | undefined;
  readonly requestId: string | undefined;
}): JSX.Element | null {
  if (console === undefined || requestId === undefined) return null;
  return (
    <a href={`${console}/explain?request=${encodeURIComponent(requestId)}`} rel="noreferrer">
      Explain this request
    </a>
  );
}

function Refusal({
  fault: { message, type, requestId },
  console,
}: {
  readonly fault: TurnFault;
  readonly console: string | undefined;
}): JSX.Element {
  return (
    <div class="refusal" role="alert">
      <span>{message}</span>
      {type === 'InferenceUpsellError' && console !== undefined && (
        <a href={`${console}/sign-in`} rel="noreferrer">
          Sign in
        </a>
      )}
      <Explain console={console} requestId={requestId} />
    </div>
  );
}
