/**
 * Home page of operators. It shows a map in which the pool and each organisation are columns or rows, and each node is a
 * tile. The room `console/pages` contains one file per page. Pages must not compute permissions or decisions themselves.
 */

import type { ComponentChildren } from 'preact';
import { useMemo, useRef } from 'preact/hooks';
import type { LiveNodeResource } from '../../schemas/admin/admin.ts';
import { pageRows } from '../../schemas/admin/page-rows.ts';
import { route } from '../lib/api.ts';
import { capacities } from '../lib/capacity.ts';
import { explainLink } from '../lib/explain.ts';
import { count, nameSome, plural, tenths } from '../lib/format.ts';
import { type FleetReads, holes, nodesByPlace, serves, type UnservedInstall } from '../lib/holes.ts';
import { useOrganisations } from '../lib/organisations.ts';
import { useRead } from '../lib/read.ts';
import { type Traffic, useTraffic } from '../lib/traffic.ts';
import { moment } from '../lib/travel.ts';
import { Name } from '../ui/name.tsx';
import { PageHeader } from '../ui/page.tsx';
import { Failure, Loading, State } from '../ui/parts.tsx';
import { FirstRun } from './first-run.tsx';
import { CapacityTable } from './fleet-capacity.tsx';
import { FleetActivity, FleetNow } from './fleet-now.tsx';
import { Installs, LoadedModels, NodeState } from './node-state.tsx';
import { TrafficCard } from './traffic.tsx';

export function FleetPage() {
  // Loads the names of organisations, because the activity section shows them.
  useOrganisations();
  const pool = useRead('pool.get');
  const stacks = useRead('stack.list', {}, { isWhole: true });
  const nodes = useRead('node.list', {}, { everyMs: 3000, isWhole: true });
  const tiers = useRead('tier.list');
  // One page of organisations is enough, because the page names only a few.
  const organisations = useRead('organisation.list', { limit: pageRows.max });
  const failure = [pool, stacks, nodes, tiers, organisations].find((read) => read.failure)?.failure;
  const state: FleetReads | undefined =
    pool.data && stacks.data && nodes.data && tiers.data && organisations.data
      ? {
          pool: pool.data,
          stacks: stacks.data.items,
          nodes: nodes.data.items,
          tiers: tiers.data.items,
          organisations: organisations.data.items,
          organisationsInAll: organisations.data.total ?? organisations.data.items.length,
        }
      : undefined;
  const last = useRef<FleetReads | undefined>(undefined);
  if (state) last.current = state;
  // While another moment is being read, the old content keeps its place but is hidden.
  const shown = state ?? (failure ? undefined : last.current);
  return (
    <>
      <PageHeader title="Fleet" lead={state ? summary(state) : undefined} cli="headgate status" />
      {failure ? <Failure failure={failure} onRetry={nodes.refresh} /> : null}
      {shown ? (
        <div class={state ? 'fleet' : 'fleet unread'} aria-busy={state === undefined}>
          <FleetBody state={shown} />
        </div>
      ) : failure ? null : (
        <Loading />
      )}
    </>
  );
}

function summary({ nodes, organisationsInAll, stacks }: FleetReads): string {
  const serving = `${nodes.filter(serves).length} of ${plural(nodes.length, 'node')} serving`;
  return `${serving}, ${plural(organisationsInAll, 'organisation')}, ${plural(stacks.length, 'stack')}.`;
}

/** Content of the Fleet page. The setup steps stay when the fleet is no longer empty, because some steps still follow. */
function FleetBody({ state }: { readonly state: FleetReads }) {
  const isEmpty = state.nodes.length === 0 || state.organisations.length === 0;
  const wasEmpty = useRef(false);
  if (isEmpty && moment() === undefined) wasEmpty.current = true;
  return (
    <>
      {isEmpty || wasEmpty.current ? <FirstRun state={state} /> : null}
      {isEmpty ? null : <Filled state={state} />}
    </>
  );
}

function Filled({ state }: { readonly state: FleetReads }) {
  const missing = useMemo(
    () => holes(state),
    [state.nodes, state.stacks, state.pool, state.tiers, state.organisations],
  );
  const isPart = state.organisations.length < state.organisationsInAll;
  const isNow = moment() === undefined;
  return (
    <>
      {isNow ? <FleetNow state={state} /> : null}
      <TrafficCard of={{}} more="/requests" />
      {missing.length === 0 ? (
        <p class="notice good">
          <State tone="good">Every installed model is loaded on a serving node.</State>
        </p>
      ) : (
        <section class="notice bad" aria-label="What is missing">
          <h2>Installed models that no node serves</h2>
          <ul class="rows">
            {missing.slice(0, missingMax).map(({ model, where, status, refused, refused: [first] }) => (
              <li key={`${where} ${model}`}>
                <span>
                  <strong>
                    <Name of={{ kind: 'model', id: model }} />
                  </strong>{' '}
                  on {where === 'the pool' ? where : <Name of={{ kind: 'stack', id: where }} />}
                </span>
                {first === undefined ? (
                  <State tone="bad">no organisation is affected</State>
                ) : (
                  <a
                    href={explainLink({ org: first.id, model, ...(where !== 'the pool' && { host: where }) })}
                  >
                    <State tone="bad">
                      {status} for {nameSome(refused.map(({ name }) => name))}
                      {isPart && where === 'the pool' ? ' and others' : ''}
                    </State>
                  </a>
                )}
              </li>
            ))}
          </ul>
          {missing.length > missingMax ? (
            <p>
              And {count(missing.length - missingMax)} more: see <a href="/doctor">Doctor</a>.
            </p>
          ) : null}
        </section>
      )}
      <FleetMap state={state} missing={missing} />
      {isNow ? <FleetActivity /> : null}
    </>
  );
}

interface FleetMapProps {
  readonly state: FleetReads;
  readonly missing: readonly UnservedInstall[];
}

/** Shows a column for each organisation with dedicated capacity, or a table if there are too many columns to look through. */
function FleetMap({ state, missing }: FleetMapProps) {
  const flows = useTraffic({}).data?.nodes ?? [];
  const { pool, stacks, nodes, organisations, organisationsInAll } = state;
  const places = useMemo(() => nodesByPlace(nodes), [nodes]);
  const capacity = useMemo(
    () => capacities({ stacks, places, organisations, missing }),
    [stacks, places, organisations, missing],
  );
  const ofPool = places.get('pool') ?? [];
  const others = organisationsInAll - capacity.length;
  const isTable = capacity.length > columnsMax;
  return (
    <>
      <div class="map">
        <Column
          title="Pool"
          subtitle={plural(pool.models.length, 'model')}
          isWide={isTable || ofPool.length > tilesMax}
        >
          <Group nodes={ofPool} flows={flows} />
          {others === 0 ? null : (
            <p class="muted">
              <a href="/orgs">{plural(others, 'organisation')}</a> {others === 1 ? 'uses' : 'use'} the pool
              only.
            </p>
          )}
        </Column>
        {(isTable ? [] : capacity).map(({ id, name, tier, stacks: own, nodes: ownNodes }) => (
          <Column
            key={id}
            title={name}
            href={route`/orgs/${id}`}
            subtitle={tier === null ? 'no tier' : <Name of={{ kind: 'tier', id: tier }} />}
          >
            {own.map((stack) => (
              <Group
                key={stack.id}
                title={stack.id}
                href={route`/stacks/${stack.id}`}
                nodes={stack.nodes}
                flows={flows}
              />
            ))}
            <Group nodes={ownNodes} flows={flows} isOwn />
          </Column>
        ))}
      </div>
      {isTable ? <CapacityTable rows={capacity} /> : null}
    </>
  );
}

interface ColumnProps {
  readonly title: string;
  readonly subtitle: ComponentChildren;
  readonly href?: string;
  /** Whether the column takes the full width, because it has many tiles. */
  readonly isWide?: boolean;
  readonly children: ComponentChildren;
}

function Column({ title, subtitle, href, isWide = false, children }: ColumnProps) {
  return (
    <section class={isWide ? 'map-column stack wide' : 'map-column stack'} aria-label={title}>
      <h2>
        {href === undefined ? title : <a href={href}>{title}</a>} <small>{subtitle}</small>
      </h2>
      {children}
    </section>
  );
}

type Flows = NonNullable<Traffic['nodes']>;

interface GroupProps {
  readonly title?: string;
  readonly href?: string;
  readonly nodes: readonly LiveNodeResource[];
  /** Current load of each node. */
  readonly flows: Flows;
  readonly isOwn?: boolean;
}

function Group({ title, href, nodes, flows, isOwn }: GroupProps) {
  if (nodes.length === 0 && title === undefined)
    return isOwn ? null : <p class="muted">No nodes are registered here.</p>;
  return (
    <div class="group stack">
      {title === undefined ? (
        isOwn ? (
          <h3>Own nodes</h3>
        ) : null
      ) : (
        <h3>
          <a href={href ?? ''}>{title}</a>
        </h3>
      )}
      {nodes.length === 0 ? <p class="muted">No nodes.</p> : null}
      {nodes.length > tilesMax ? (
        <p class="muted wide">
          {nodes.filter(serves).length} of {nodes.length} nodes serve. <a href="/nodes">All nodes</a>
        </p>
      ) : null}
      {selectTiles(nodes).map((node) => (
        <article key={node.id} class={node.drained ? 'tile idle' : node.up ? 'tile good' : 'tile bad'}>
          <div class="tile-head ends">
            <strong>
              <Name of={{ kind: 'node', id: node.id }} />
            </strong>
            <NodeState node={node} />
          </div>
          <p>
            <LoadedModels node={node} />
          </p>
          <Installs node={node} />
          <Flow node={node.id} flows={flows} />
        </article>
      ))}
    </div>
  );
}

/** Shows the current load of a node, relative to the busiest node. Shows nothing for an idle node. */
function Flow({ node, flows }: { readonly node: string; readonly flows: Flows }) {
  const found = flows.find((one) => one.node === node);
  const most = Math.max(...flows.map(({ requestsPerSecond }) => requestsPerSecond));
  if (found === undefined || found.requestsPerSecond === 0) return null;
  const { requestsPerSecond, tokensPerSecond } = found;
  return (
    <div class="flow stack">
      <span>
        {tenths(requestsPerSecond)} requests/s, {count(Math.round(tokensPerSecond))} tokens/s
      </span>
      <svg viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true">
        <rect width={(100 * requestsPerSecond) / most} height="4" />
      </svg>
    </div>
  );
}

/** Maximum numbers of tiles, columns and missing models to show. More would hide the important ones. */
const tilesMax = 24;
const columnsMax = 24;
const missingMax = 10;

/** Selects the nodes to show as tiles. If there are many, only nodes that do not serve are shown. */
function selectTiles(nodes: readonly LiveNodeResource[]): readonly LiveNodeResource[] {
  if (nodes.length <= tilesMax) return nodes;
  return nodes.filter((node) => !serves(node)).slice(0, tilesMax);
}
