/** The columns of requests. A name narrows the list down to itself; what was decided, and why, is one click away. */
import type { ComponentChildren } from 'preact';
import type { RequestRow } from '../../schemas/requests.ts';
import { withQuery } from '../lib/api.ts';
import { clock, count } from '../lib/format.ts';
import { location } from '../lib/router.ts';
import { Name } from '../ui/name.tsx';
import { organisationName } from '../ui/organisation-choice.tsx';
import { State } from '../ui/parts.tsx';
import type { TableColumn } from '../ui/table.tsx';

/** The address of the page with one filter more. */
function addressWith(changes: Readonly<Record<string, string>>): string {
  const { path, query } = location.value;
  return withQuery(path, { ...Object.fromEntries(query), ...changes });
}

interface OnlyProps {
  readonly name: string;
  readonly value: string | undefined;
  readonly children?: ComponentChildren;
}

/** Nothing where it is not known. */
function Only({ name, value, children }: OnlyProps) {
  if (value === undefined) return <span class="muted">–</span>;
  const shown = children ?? value;
  return (
    <a class="only" href={addressWith({ [name]: value })} title={`Only ${name} ${value}`}>
      {shown}
    </a>
  );
}

function Outcome({ row }: { readonly row: RequestRow }) {
  const { verdict, type, endedBy } = row;
  if (verdict === 'served') return <State tone="good">served</State>;
  if (verdict === 'refused') return <State tone="bad">{type ?? 'refused'}</State>;
  return <State tone="warn">ended early{endedBy === undefined ? '' : ` by the ${endedBy}`}</State>;
}

function duration(ms: number | undefined): string {
  if (ms === undefined) return '–';
  if (ms < 10) return `${ms.toFixed(1)} ms`;
  return ms < 10_000 ? `${count(Math.round(ms))} ms` : `${(ms / 1000).toFixed(1)} s`;
}

const tokens = (value: number | undefined): string => (value === undefined ? '–' : count(value));

const ofAll: readonly TableColumn<RequestRow>[] = [
  {
    name: 'When',
    isTitle: true,
    cell: ({ at, request }) => (
      <a class="row-link" href={addressWith({ open: request })} title={request}>
        <time dateTime={at}>{clock(at)}</time>
      </a>
    ),
  },
  { name: 'Outcome', cell: (row) => <Outcome row={row} /> },
  { name: 'Status', isNumber: true, cell: ({ status }) => String(status) },
  {
    name: 'Organisation',
    cell: ({ organisation }) => (
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
  {
    name: 'Host',
    cell: ({ host }) => (host.startsWith('stk-') ? <Name of={{ kind: 'stack', id: host }} /> : host),
  },
  { name: 'Prompt', isNumber: true, cell: ({ promptTokens }) => tokens(promptTokens) },
  { name: 'Completion', isNumber: true, cell: ({ completionTokens }) => tokens(completionTokens) },
  { name: 'First token', isNumber: true, cell: ({ firstTokenMs }) => duration(firstTokenMs) },
  { name: 'Duration', isNumber: true, cell: ({ durationMs }) => duration(durationMs) },
  { name: 'Node', cell: ({ node }) => <Only name="node" value={node} /> },
  { name: 'Gateway', cell: ({ gateway }) => <Only name="gateway" value={gateway} /> },
  { name: 'Position', isNumber: true, cell: ({ position }) => count(position) },
];
const ofMembers = ofAll.filter(({ name }) => name !== 'Node' && name !== 'Organisation');

export function requestColumns(isOperator: boolean): readonly TableColumn<RequestRow>[] {
  return isOperator ? ofAll : ofMembers;
}
