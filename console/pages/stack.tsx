/** Page about one stack. It shows the stack's models and nodes and, under `Credentials settings`, how to call the stack. */
import type { ComponentChildren } from 'preact';
import type { LiveNodeResource, OperationAnswer, Stack } from '../../schemas/admin/admin.ts';
import { type Addresses, stackUrl } from '../lib/addresses.ts';
import { route, withQuery } from '../lib/api.ts';
import { explainLink } from '../lib/explain.ts';
import { plural } from '../lib/format.ts';
import { organisationName } from '../lib/organisations.ts';
import { usePath, useRead } from '../lib/read.ts';
import { location, setQuery } from '../lib/router.ts';
import { isOperator } from '../lib/session.ts';
import { moment } from '../lib/travel.ts';
import { Name } from '../ui/name.tsx';
import { ThingPage } from '../ui/page.tsx';
import { Card, Empty, Facts, Id, State } from '../ui/parts.tsx';
import { CallSnippet, CredentialsSettings } from './credentials-settings.tsx';
import { InstallState, NodeState } from './node-state.tsx';
import { TrafficCard } from './traffic.tsx';

export function StackPage({ id }: { readonly id: string }) {
  const stack = useRead('stack.get', { id });
  const addresses = usePath<Addresses>('/addresses').data ?? {};
  const tab = location.value.query.get('tab') === 'credentials' ? 'credentials' : 'overview';
  return (
    <ThingPage title={id} list={['/stacks', 'All stacks']} cli={`headgate stack get ${id}`} of={stack}>
      {(data) => (
        <>
          <Tabs chosen={tab} />
          <div role="tabpanel" aria-label={tab === 'credentials' ? 'Credentials settings' : 'Overview'}>
            {tab === 'credentials' ? (
              <CredentialsSettings stack={data} url={stackUrl(data.id, addresses)} />
            ) : (
              <Overview stack={data} url={stackUrl(data.id, addresses)} />
            )}
          </div>
        </>
      )}
    </ThingPage>
  );
}

const tabs = [
  ['overview', 'Overview'],
  ['credentials', 'Credentials settings'],
] as const;

function Tabs({ chosen }: { readonly chosen: string }) {
  const onKey = (event: KeyboardEvent): void => {
    if (event.key !== 'ArrowRight' && event.key !== 'ArrowLeft') return;
    const next = chosen === 'overview' ? 'credentials' : 'overview';
    setQuery({ tab: next === 'overview' ? '' : next });
    document.getElementById(`tab-${next}`)?.focus();
  };
  return (
    <div class="tabs" role="tablist" aria-label="Parts of this stack">
      {tabs.map(([tab, name]) => (
        <button
          key={tab}
          id={`tab-${tab}`}
          type="button"
          role="tab"
          aria-selected={tab === chosen}
          tabIndex={tab === chosen ? 0 : -1}
          onKeyDown={onKey}
          onClick={() => setQuery({ tab: tab === 'overview' ? '' : tab })}
        >
          {name}
        </button>
      ))}
    </div>
  );
}

function Overview({ stack, url }: { readonly stack: Stack; readonly url: string }) {
  const owner = organisationName(stack.organisation);
  const atIt = { text: `stack:${stack.id}` };
  const all = useRead(isOperator() ? 'node.list' : undefined, atIt, { everyMs: 2000, isWhole: true }).data;
  const nodes = all?.items.filter(({ place }) => place.kind === 'stack' && place.id === stack.id);
  const answers = useRead(
    isOperator() ? undefined : 'decision.matrix',
    { organisation: stack.organisation, host: stack.id, at: moment() },
    { everyMs: 5000, isFixed: moment() !== undefined },
  ).data;
  const programs = withQuery(route`/stacks/${stack.id}`, { tab: 'credentials', at: moment() });
  return (
    <div class="columns">
      <Card title="About">
        <Facts
          items={{
            Identifier: <Id id={stack.id} />,
            Address: <Id id={url} label="Copy the address" />,
            Organisation: <Name of={{ kind: 'organisation', id: stack.organisation, name: owner }} />,
            'API style': stack.surface === 'openai' ? 'OpenAI-style' : 'Anthropic-style',
          }}
        />
      </Card>
      <Card title="Models">
        {stack.models.length === 0 ? (
          <Empty title="No models are installed">
            <p>
              <code>headgate stack install {stack.id} MODEL</code>
            </p>
          </Empty>
        ) : (
          <ul class="rows">
            {stack.models.map((model) => (
              <li key={model}>
                <Name of={{ kind: 'model', id: model }} />
                <span class="row">
                  <ModelState stack={stack} model={model} nodes={nodes} answers={answers} />
                  <ModelInstalls model={model} nodes={nodes ?? []} />
                </span>
              </li>
            ))}
          </ul>
        )}
      </Card>
      <Card title="Nodes">
        <NodeList stack={stack} nodes={nodes} />
      </Card>
      <TrafficCard of={{ stack: stack.id }} />
      <Card title="Call this stack" more={<a href={programs}>More examples</a>}>
        <CallSnippet stack={stack} url={url} />
        <p class="muted">
          Replace <code>YOUR-KEY</code> with an{' '}
          <a href={withQuery('/keys', { org: stack.organisation })}>API key</a>.
        </p>
      </Card>
    </div>
  );
}

function NodeList({
  stack,
  nodes,
}: {
  readonly stack: Stack;
  readonly nodes: readonly LiveNodeResource[] | undefined;
}) {
  if (stack.nodes.length === 0) return <Empty title="No nodes are registered">{null}</Empty>;
  const states = new Map<string, ComponentChildren>(
    nodes?.map((node) => [node.id, <NodeState key={node.id} node={node} />]),
  );
  return (
    <ul class="rows">
      {stack.nodes.map((node) => (
        <li key={node}>
          <Name of={{ kind: 'node', id: node }} />
          {states.get(node) ?? null}
        </li>
      ))}
    </ul>
  );
}

/** Shows a model's state. Operators see it as derived from the nodes, and members as the outcome of a request. */
function ModelState({
  stack,
  model,
  nodes,
  answers,
}: {
  readonly stack: Stack;
  readonly model: string;
  readonly nodes: readonly LiveNodeResource[] | undefined;
  readonly answers: OperationAnswer<'decision.matrix'> | undefined;
}) {
  const answer = answers?.items.find((item) => item.host === stack.id && item.model === model);
  const path = answer === undefined || answer.path === 'chat' ? {} : { path: answer.path };
  const explained = explainLink({ org: stack.organisation, model, host: stack.id, ...path });
  if (!nodes) {
    if (!answer) return <State tone="info">installed</State>;
    if (answer.served) return <State tone="good">served</State>;
    return (
      <a href={explained}>
        <State tone="bad">
          requests get {answer.status} {answer.type}
        </State>
      </a>
    );
  }
  const serving = nodes.filter(
    ({ up, drained, loaded, models }) => up && !drained && loaded.includes(models?.[model] ?? model),
  );
  if (serving.length === 0)
    return (
      <a href={explained}>
        <State tone="bad">not loaded on any serving node: requests get 404</State>
      </a>
    );
  return <State tone="good">served by {plural(serving.length, 'node')}</State>;
}

/** Lists the nodes that are loading the model or could not load it. */
function ModelInstalls({
  model,
  nodes,
}: {
  readonly model: string;
  readonly nodes: readonly LiveNodeResource[];
}) {
  return (
    <>
      {nodes.flatMap(({ id, installs = [], models }) =>
        installs
          .filter((install) => install.model === (models?.[model] ?? model))
          .map((install) => <InstallState key={id} install={install} about={id} />),
      )}
    </>
  );
}
