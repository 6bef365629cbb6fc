/** Columns of the request list. Clicking a name filters the list by it. Each row links to the decision and its reason. */
import type { ComponentChildren } from 'preact';
import type { RequestRow } from '../../schemas/admin/requests.ts';
import { withQuery } from '../lib/api.ts';
import { clock, count } from '../lib/format.ts';
import { organisationName } from '../lib/organisations.ts';
import { location } from '../lib/router.ts';
import { Name } from '../ui/name.tsx';
import { State } from '../ui/parts.tsx';
import type { TableColumn } from '../ui/table.tsx';

/** Returns the URL of the page with additional filters. */
function linkWithFilter(changes: Readonly<Record<string, string>>): string {
  const { path, query } = location.value;
  return withQuery(path, { ...Object.fromEntries(query), ...changes });
}

interface OnlyProps {
  readonly name: string;
  readonly value: string | undefined;
  readonly children?: ComponentChildren;
}

/** Shows a value that filters the list when clicked. Shows a dash if there is no value. */
function Only({ name, value, children }: OnlyProps) {
  if (value === undefined) return <span class="muted">–</span>;
  const shown = children ?? value;
  return (
    <a class="only" href={linkWithFilter({ [name]: value })} title={`Show only ${name} ${value}`}>
      {shown}
    </a>
  );
}

/** Shows the outcome of a request in a few words. The tooltip contains the full text. */
function Outcome({ row: { verdict, status, type, endedBy } }: { readonly row: RequestRow }) {
  const [tone, what] = (
    {
      served: ['good', 'served'],
      refused: ['bad', type ?? 'refused'],
      ended: ['warn', endedBy === undefined ? 'ended early' : `ended by the ${endedBy}`],
    } as const
  )[verdict];
  const text = status === undefined ? what : `${status} ${what}`;
  return (
    <span title={text}>
      <State tone={tone}>{text}</State>
    </span>
  );
}

function duration(ms: number): string {
  if (ms < 10) return `${ms.toFixed(1)} ms`;
  return ms < 10_000 ? `${count(Math.round(ms))} ms` : `${(ms / 1000).toFixed(1)} s`;
}

function Times({ row: { firstTokenMs, durationMs } }: { readonly row: RequestRow }) {
  if (firstTokenMs === undefined) return <>{duration(durationMs)}</>;
  return (
    <span title={`first token after ${duration(firstTokenMs)}, end after ${duration(durationMs)}`}>
      {duration(firstTokenMs)} / {duration(durationMs)}
    </span>
  );
}

function Tokens({ row: { promptTokens, completionTokens } }: { readonly row: RequestRow }) {
  if (promptTokens === undefined && completionTokens === undefined) return <span class="muted">–</span>;
  const [prompt, completion] = [promptTokens, completionTokens].map((value) => count(value ?? 0));
  return (
    <span title={`${prompt} in the prompt, ${completion} in the answer`}>
      {prompt} + {completion}
    </span>
  );
}

function Host({ host }: { readonly host: string }) {
  return (
    <span title={host}>{host.startsWith('stk-') ? <Name of={{ kind: 'stack', id: host }} /> : host}</span>
  );
}

const ofAll: readonly TableColumn<RequestRow>[] = [
  {
    name: 'When',
    isTitle: true,
    cell: ({ at, request }) => (
      <a class="row-link" href={linkWithFilter({ open: request })} title={request}>
        <time dateTime={at}>{clock(at)}</time>
      </a>
    ),
  },
  { name: 'Outcome', look: 'outcome', cell: (row) => <Outcome row={row} /> },
  {
    name: 'Organisation',
    look: 'organisation',
    cell: ({ organisation, visitor }) =>
      visitor ? (
        <>visitor</>
      ) : (
        <Only name="org" value={organisation}>
          {organisation === undefined ? null : organisationName(organisation)}
        </Only>
      ),
  },
  {
    name: 'Key',
    cell: ({ key, keyName }) => (
      <Only name="key" value={key}>
        {keyName}
      </Only>
    ),
  },
  { name: 'Model', cell: ({ model }) => <Only name="model" value={model} /> },
  { name: 'Tokens', isNumber: true, look: 'tokens', cell: (row) => <Tokens row={row} /> },
  { name: 'First token / end', isNumber: true, look: 'times', cell: (row) => <Times row={row} /> },
  { name: 'Host', look: 'roomy', cell: (row) => <Host host={row.host} /> },
  { name: 'Node', cell: ({ node }) => <Only name="node" value={node} /> },
  { name: 'Gateway', look: 'gateway', cell: ({ gateway }) => <Only name="gateway" value={gateway} /> },
  { name: 'Position', isNumber: true, look: 'roomy', cell: ({ position }) => <>{count(position)}</> },
];
const ofMembers = ofAll.filter(({ name }) => name !== 'Node' && name !== 'Organisation');

export function requestColumns(isOperator: boolean): readonly TableColumn<RequestRow>[] {
  return isOperator ? ofAll : ofMembers;
}
