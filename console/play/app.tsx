/**
 * Playground page. It shows a conversation and the remaining free turns, and accepts an API key. The room `console/play` is
 * for visitors without an account. Its page must never store messages or keys.
 */
import type { ComponentChildren, JSX } from 'preact';
import { useState } from 'preact/hooks';
import { pickChatModel } from '../lib/model-kinds.ts';
import { type KeyState, keyState, type VisitorState } from './api.ts';
import { Composer } from './composer.tsx';
import { type Parameters, requestBody, type TurnTarget } from './conversation.ts';
import { Messages } from './messages.tsx';
import { RefusalNotice } from './refusal.tsx';
import { KeyField, ModelField, ParameterFields, Settings, ViewAs } from './settings.tsx';
import { useConversation } from './use-conversation.ts';

const noParameters: Parameters = { system: '', maxTokens: undefined, temperature: undefined };
type Owner = KeyState & { readonly key: string };

export function App(): JSX.Element {
  const [owner, setOwner] = useState<Owner>();
  const [parameters, setParameters] = useState(noParameters);
  const [draft, setDraft] = useState('');
  const [isSetting, setSetting] = useState(false);
  const { visitor, isClosed, refresh, ...talk } = useConversation(owner?.key);
  const { models, target, setTarget } = useTarget(owner?.models ?? visitor?.models ?? []);
  const preview = [...talk.messages, { role: 'user' as const, content: draft || 'Hello' }];
  const submit = async (): Promise<void> => {
    const content = draft.trim();
    if ([content, target.model].includes('') || talk.isBusy) return;
    setDraft('');
    // A refused message returns to the field, unless the user has typed another one meanwhile.
    if (!(await talk.ask(target, content, parameters))) setDraft((now) => (now === '' ? content : now));
  };
  const again = (): void => void talk.again(target, parameters);
  /** Sends the last message again. A refused message was returned to the message field, so it is sent from the field. */
  const retry = (): void => {
    if (draft !== '') void submit();
    else if (talk.messages.length > 0) again();
    else void refresh();
  };
  /** Changes the API key. Clears a conversation held with a key, because no other key may be used to continue it. */
  const changeOwner = (next: Owner | undefined): void => {
    if (next === undefined || owner !== undefined) talk.clear();
    setOwner(next);
    setTarget(undefined);
    if (next === undefined) void refresh();
  };
  const reload = (): void => void refresh();
  return (
    <main class="play">
      <Head
        status={isClosed ? 'Closed' : statusText(owner, visitor)}
        onNew={talk.messages.length === 0 ? undefined : talk.clear}
        onSettings={isClosed ? undefined : () => setSetting(true)}
      />
      {isClosed ? (
        <Closed onRetry={reload} />
      ) : (
        <>
          <Messages messages={talk.messages} isBusy={talk.isBusy} console={visitor?.console} onAgain={again}>
            {talk.messages.length === 0 && <Beginning model={target.model} onRetry={visitor && reload} />}
            {talk.fault && (
              <RefusalNotice
                fault={talk.fault}
                console={visitor?.console}
                isVisitor={owner === undefined}
                onAgain={retry}
                onNew={talk.clear}
              />
            )}
          </Messages>
          <Composer
            draft={draft}
            isBusy={talk.isBusy}
            maySend={target.model !== ''}
            onDraft={setDraft}
            onSend={() => void submit()}
            onStop={talk.stop}
          >
            <ModelField models={models} stacks={owner?.stacks ?? []} value={target} onChange={setTarget} />
          </Composer>
        </>
      )}
      {isSetting && (
        <Settings onClose={() => setSetting(false)}>
          <KeyField
            organisation={owner?.organisation}
            onUse={async (key) => changeOwner({ ...(await keyState(key)), key })}
            onForget={() => changeOwner(undefined)}
          />
          <ParameterFields value={parameters} onChange={setParameters} />
          <ViewAs target={target} body={requestBody(target, preview, parameters)} />
        </Settings>
      )}
    </main>
  );
}

/** Returns the chosen model or, by default, the first chat model. The name is empty if there is no model. */
function useTarget(models: readonly string[]) {
  const [chosen, setTarget] = useState<TurnTarget>();
  const first = pickChatModel(models) ?? models[0] ?? '';
  return { models, target: chosen ?? { model: first }, setTarget };
}

interface HeadProps {
  readonly status: string | undefined;
  readonly onNew: (() => void) | undefined;
  readonly onSettings: (() => void) | undefined;
}

function Head({ status, onNew, onSettings }: HeadProps): JSX.Element {
  return (
    <header class="row">
      <h1>Playground</h1>
      <p class="muted small" role="status">
        {status}
      </p>
      <div class="row">
        {onNew && (
          <button type="button" class="button quiet" onClick={onNew}>
            New<span class="wide-only"> conversation</span>
          </button>
        )}
        {onSettings && (
          <button type="button" class="button quiet" onClick={onSettings} title="Settings, key and code">
            <svg viewBox="0 0 20 20" width="18" height="18" aria-hidden="true">
              <path d="M3 6h8m4 0h2M3 14h2m4 0h8M13 4v4M7 12v4" />
            </svg>
            <span class="visually-hidden">Settings</span>
          </button>
        )}
      </div>
    </header>
  );
}

function statusText(owner: Owner | undefined, visitor: VisitorState | undefined): string | undefined {
  if (owner) return `Key of ${owner.organisation}`;
  return visitor && `${visitor.turns.left} of ${visitor.turns.limit} free turns left`;
}

interface BeginningProps {
  readonly model: string;
  /** Action that retries, or undefined until the visitor's models have been read. */
  readonly onRetry: (() => void) | undefined;
}

function Beginning({ model, onRetry }: BeginningProps): JSX.Element {
  if (onRetry && model === '') return <Unserved title="No model is available right now" onRetry={onRetry} />;
  return (
    <div class="beginning stack">
      <p class="question">{model === '' ? 'One moment…' : `What would you like to ask ${model}?`}</p>
      <p class="muted small">
        Messages are not stored. Your free turns are counted with a cookie, and with a hash of your network
        address that changes every day.
      </p>
    </div>
  );
}

function Closed({ onRetry }: { readonly onRetry: () => void }): JSX.Element {
  return (
    <Unserved title="The playground is closed" onRetry={onRetry}>
      <p class="muted small">It does not serve visitors at the moment.</p>
    </Unserved>
  );
}

interface UnservedProps {
  readonly title: string;
  readonly onRetry: () => void;
  readonly children?: ComponentChildren;
}

function Unserved({ title, onRetry, children }: UnservedProps): JSX.Element {
  return (
    <div class="beginning stack">
      <p class="question">{title}</p>
      {children}
      <div class="row">
        <button class="button" type="button" onClick={onRetry}>
          Try again
        </button>
      </div>
    </div>
  );
}
