/** Shows a stack's API surface, and settings to paste into client programs. */
import { useState } from 'preact/hooks';
import type { Stack } from '../../schemas/admin/admin.ts';
import { callShown, withQuery } from '../lib/api.ts';
import { plural } from '../lib/format.ts';
import { pickChatModel, reranks } from '../lib/model-kinds.ts';
import { useRead } from '../lib/read.ts';
import { may } from '../lib/session.ts';
import { useWork } from '../ui/dialog.tsx';
import { EffectOf } from '../ui/effect.tsx';
import { Name } from '../ui/name.tsx';
import { Card, Copy, Failure, State } from '../ui/parts.tsx';

type Surface = Stack['surface'];
const names: Readonly<Record<Surface, string>> = { openai: 'OpenAI-style', anthropic: 'Anthropic-style' };

export interface CredentialsProps {
  readonly stack: Stack;
  readonly url: string;
}

export function CredentialsSettings({ stack, url }: CredentialsProps) {
  return (
    <div class="columns">
      <SurfaceSwitch key={stack.surface} stack={stack} />
      <Card title="Code to copy" isWide>
        <p class="muted">
          Replace <code>YOUR-KEY</code> with an{' '}
          <a href={withQuery('/keys', { org: stack.organisation })}>API key</a> of{' '}
          <Name of={{ kind: 'organisation', id: stack.organisation }} />.
        </p>
        {settings(stack, url).map(([name, text]) => (
          <Snippet key={name} name={name} text={text} />
        ))}
      </Card>
    </div>
  );
}

/** Shows an example command that calls the stack. */
export function CallSnippet({ stack, url }: CredentialsProps) {
  const [[name = '', text = ''] = []] = settings(stack, url);
  return <Snippet name={name} text={text} />;
}

function Snippet({ name, text }: { readonly name: string; readonly text: string }) {
  return (
    <div class="snippet">
      <div class="snippet-head ends">
        <h3>{name}</h3>
        <Copy text={text} label="Copy" title={`Copy the code for ${name}`} />
      </div>
      <pre>{text}</pre>
    </div>
  );
}

function SurfaceSwitch({ stack }: { readonly stack: Stack }) {
  const [chosen, setChosen] = useState<Surface>(stack.surface);
  const { isBusy, failure, run } = useWork();
  const isAllowed = may('stack.set-surface', stack.organisation);
  const submit = (event: Event): void => {
    event.preventDefault();
    run(async () => {
      await callShown('stack.set-surface', { id: stack.id, surface: chosen });
    });
  };
  return (
    <Card title="API style">
      <form onSubmit={submit}>
        <fieldset disabled={!isAllowed || isBusy}>
          <legend>How programs call this stack</legend>
          {(['openai', 'anthropic'] as const).map((surface) => (
            <label key={surface} class="radio">
              <input
                type="radio"
                name="surface"
                value={surface}
                checked={chosen === surface}
                onChange={() => setChosen(surface)}
              />
              <span>{names[surface]}</span>
              {stack.surface === surface ? <State tone="good">current</State> : null}
            </label>
          ))}
        </fieldset>
        {chosen === stack.surface ? null : (
          <p class="notice warn">
            After the switch, programs that use the {names[stack.surface]} API get 400. Change their settings
            at the same time. <Callers stack={stack} />
          </p>
        )}
        {isAllowed && chosen !== stack.surface ? (
          <EffectOf name="stack.set-surface" input={{ id: stack.id, surface: chosen }} />
        ) : null}
        {failure ? <Failure failure={failure} /> : null}
        {isAllowed ? (
          <div class="dialog-actions row">
            <Copy text={`headgate stack surface ${stack.id} ${chosen}`} label="Copy as CLI" icon="terminal" />
            <button type="submit" class="button primary" disabled={isBusy || chosen === stack.surface}>
              Switch surface
            </button>
          </div>
        ) : (
          <p class="muted">
            Owners and admins of <Name of={{ kind: 'organisation', id: stack.organisation }} /> can switch it.
          </p>
        )}
      </form>
    </Card>
  );
}

/** Lists the keys that would be refused after switching the surface, based on the traffic of the last hour. */
function Callers({ stack: { id, organisation, surface } }: { readonly stack: Stack }) {
  const { data } = useRead('organisation.activity', { id: organisation });
  if (!data) return null;
  const callers = data.callers.filter((one) => one.stack === id && one.surface === surface);
  const isWhole = !data.partial && data.unanswered.length === 0;
  if (callers.length === 0)
    return (
      <span>
        {isWhole
          ? 'No key used it in the last hour.'
          : 'It is not known which keys used it in the last hour.'}
      </span>
    );
  return (
    <span>
      Keys that used it in the last hour:{' '}
      {callers.map(({ key, requests }, at) => (
        <span key={key}>
          {at === 0 ? '' : ', '}
          <Name of={{ kind: 'key', id: key, within: organisation }} /> ({plural(requests, 'request')})
        </span>
      ))}
      .
    </span>
  );
}

type Example = readonly [name: string, text: string];

function settings({ surface, models }: Stack, url: string): readonly Example[] {
  const reranker = models.find(reranks);
  const model = pickChatModel(models);
  if (surface === 'anthropic') return messagesExamples(model ?? 'MODEL', url);
  if (reranker === undefined) return chatExamples(model ?? 'MODEL', url);
  const examples = [rerankExample(reranker, url)];
  return model === undefined ? examples : [...chatExamples(model, url), ...examples];
}

function rerankExample(model: string, url: string): Example {
  return [
    'curl, rerank',
    `curl ${url}/rerank \\\n  -H 'Authorization: Bearer YOUR-KEY' \\\n  -H 'Content-Type: application/json' \\\n  -d '{"model":"${model}","query":"fruit","documents":["an apple","a stone"]}'`,
  ];
}

function chatExamples(model: string, url: string): readonly Example[] {
  return [
    [
      'curl',
      `curl ${url}/chat/completions \\\n  -H 'Authorization: Bearer YOUR-KEY' \\\n  -H 'Content-Type: application/json' \\\n  -d '{"model":"${model}","messages":[{"role":"user","content":"hello"}]}'`,
    ],
    [
      'OpenAI SDK, TypeScript',
      `import OpenAI from 'openai';\n\nconst client = new OpenAI({ baseURL: '${url}', apiKey: 'YOUR-KEY' });\nawait client.chat.completions.create({\n  model: '${model}',\n  messages: [{ role: 'user', content: 'hello' }],\n});`,
    ],
    [
      'OpenAI SDK, Python',
      `from openai import OpenAI\n\nclient = OpenAI(base_url="${url}", api_key="YOUR-KEY")\nclient.chat.completions.create(\n    model="${model}", messages=[{"role": "user", "content": "hello"}]\n)`,
    ],
  ];
}

function messagesExamples(model: string, url: string): readonly Example[] {
  const base = url.replace(/\/v1$/, '');
  return [
    [
      'curl',
      `curl ${url}/messages \\\n  -H 'x-api-key: YOUR-KEY' \\\n  -H 'anthropic-version: 2023-06-01' \\\n  -H 'Content-Type: application/json' \\\n  -d '{"model":"${model}","max_tokens":256,"messages":[{"role":"user","content":"hello"}]}'`,
    ],
    [
      'Anthropic SDK, TypeScript',
      `import Anthropic from '@anthropic-ai/sdk';\n\nconst client = new Anthropic({ baseURL: '${base}', apiKey: 'YOUR-KEY' });\nawait client.messages.create({\n  model: '${model}',\n  max_tokens: 256,\n  messages: [{ role: 'user', content: 'hello' }],\n});`,
    ],
    [
      'Claude Code',
      `export ANTHROPIC_BASE_URL=${base}\nexport ANTHROPIC_AUTH_TOKEN=YOUR-KEY\nexport ANTHROPIC_MODEL=${model}\nclaude`,
    ],
  ];
}
