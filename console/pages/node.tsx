/** Page about one node. It shows the node's place, what it has loaded, who reports on it, and its history. */
import { useEffect, useRef, useState } from 'preact/hooks';
import type { LiveNodeResource } from '../../schemas/admin/admin.ts';
import { withQuery } from '../lib/api.ts';
import { ago, count, plural, seconds, shellWord } from '../lib/format.ts';
import { useRead } from '../lib/read.ts';
import { may } from '../lib/session.ts';
import { moment } from '../lib/travel.ts';
import { EventsCard } from '../ui/event-rows.tsx';
import { Name } from '../ui/name.tsx';
import { ThingPage } from '../ui/page.tsx';
import { Badge, Button, Card, Empty, Facts, Id } from '../ui/parts.tsx';
import { DrainDialog, Installs, NodeState, Place } from './node-state.tsx';
import { TrafficCard } from './traffic.tsx';

export function NodePage({ id }: { readonly id: string }) {
  const node = useRead('node.get', { id }, { everyMs: 1000 });
  const { data } = node;
  const [isAsking, setAsking] = useState(false);
  return (
    <>
      <ThingPage
        title={id}
        list={['/nodes', 'All nodes']}
        cli={`headgate node get ${shellWord(id)}`}
        actions={
          data && may('node.drain') ? (
            <Button onClick={() => setAsking(true)}>{data.drained ? 'Undrain' : 'Drain'}</Button>
          ) : null
        }
        of={node}
        // Even if the node was removed, its events are still available.
        otherwise={<NodeEvents id={id} />}
      >
        {(found) => (
          <div class="columns">
            <About node={found} />
            <Models node={found} />
            <Reports node={found} />
            <NodeEvents id={id} />
            <TrafficCard of={{ node: id }} more={withQuery('/requests', { node: id })} />
          </div>
        )}
      </ThingPage>
      {isAsking && data ? <DrainDialog node={data} onClose={() => setAsking(false)} /> : null}
    </>
  );
}

function About({ node }: { readonly node: LiveNodeResource }) {
  const { url, dialect, credential, changedAt, inFlight, reason } = node;
  return (
    <Card title="About">
      <Facts
        items={{
          State: (
            <span class="row">
              <NodeState node={node} />
              {changedAt === undefined ? null : <time dateTime={changedAt}>changed {ago(changedAt)}</time>}
            </span>
          ),
          Reason: reason,
          Place: <Place node={node} />,
          Address: <Id id={url} label="Copy the address" />,
          Engine: <Badge>{dialect}</Badge>,
          Credential: credential === undefined ? undefined : <code>{credential}</code>,
          'In flight': inFlight === undefined ? 'not reported' : plural(inFlight, 'request'),
        }}
      />
    </Card>
  );
}

/** Lists the catalog ids of the models, with the engine's names if they differ. */
function Models({ node }: { readonly node: LiveNodeResource }) {
  const { loaded, models = {}, unlisted = [] } = node;
  const idOf = new Map(Object.entries(models).map(([id, name]) => [name, id]));
  return (
    <Card title="Loaded models">
      {loaded.length === 0 ? <Empty title="No models are loaded">{null}</Empty> : null}
      <ul class="rows" aria-label="Loaded models">
        {loaded.map((name) => {
          const id = idOf.get(name) ?? name;
          return (
            <li key={name}>
              {unlisted.includes(name) ? <code>{name}</code> : <Name of={{ kind: 'model', id }} />}
              <span class="muted">
                {unlisted.includes(name) ? 'not in the catalog' : id === name ? '' : `as ${name}`}
              </span>
            </li>
          );
        })}
      </ul>
      <Installs node={node} />
    </Card>
  );
}

function Reports({ node }: { readonly node: LiveNodeResource }) {
  const { id, owner, agent, generation, beatSeconds, withheld } = node;
  const isNow = moment() === undefined;
  const tokens = useRead(
    agent && isNow ? 'node-token.list' : undefined,
    { id },
    { isWhole: true },
  ).data?.items.filter(({ state }) => state === 'active');
  const beats = isNow ? <Heartbeats key={id} beatSeconds={beatSeconds} /> : 'not stored for the past';
  return (
    <Card title={agent ? 'Agent' : 'Probes'}>
      <Facts
        items={{
          'Reported by': owner === undefined ? 'nobody yet' : `${owner}, generation ${count(generation)}`,
          Heartbeats: agent ? beats : undefined,
          Tokens: agent ? (tokens === undefined ? '–' : plural(tokens.length, 'active token')) : undefined,
          Agent: agent ? undefined : 'none: the control plane probes the node',
          Withheld: withheld ? 'reports of the last hour that were too many or too large' : undefined,
        }}
      />
    </Card>
  );
}

const shownSeconds = 60;

/** Shows the heartbeats that this page has observed, with the newest on the right. */
function Heartbeats({ beatSeconds }: { readonly beatSeconds: number | undefined }) {
  const seen = useRef<readonly number[]>([]);
  const [, redraw] = useState(0);
  useEffect(() => {
    if (beatSeconds === undefined) return;
    const now = Date.now() / 1000;
    const at = now - beatSeconds;
    const kept = seen.current.filter((one) => now - one < shownSeconds);
    // Add a heartbeat only if it is new, because two reads may return the same one.
    if (at - (kept.at(-1) ?? 0) > 0.5) seen.current = [...kept, at];
    redraw((count) => count + 1);
  }, [beatSeconds]);
  if (beatSeconds === undefined) return <>none now</>;
  const now = Date.now() / 1000;
  return (
    <span class="heartbeats stack">
      last {seconds(beatSeconds)} ago
      <svg viewBox={`0 0 ${shownSeconds} 8`} width="180" height="24" aria-hidden="true">
        <path class="track" d={`M0 4h${shownSeconds}`} />
        {seen.current.map((at) => (
          <circle key={at} r="0.7" cx={shownSeconds - 1 - Math.max(0, now - at)} cy="4" />
        ))}
      </svg>
      <small class="muted">last minute, while this page was open</small>
    </span>
  );
}

function NodeEvents({ id }: { readonly id: string }) {
  return (
    <EventsCard
      title="Events"
      label="Events of the node"
      about={{ node: id }}
      limit={10}
      more="All events"
      none="There are no events about this node."
    />
  );
}
