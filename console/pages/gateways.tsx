/** Page that lists gateways. The control plane computes their states, so a silent gateway cannot keep a good state. */
import { useState } from 'preact/hooks';
import type { GatewayStatus } from '../../schemas/admin/admin.ts';
import { fencedSeconds, shownColumns } from '../../schemas/records/gateway-members.ts';
import { call } from '../lib/api.ts';
import { seconds } from '../lib/format.ts';
import { useRead } from '../lib/read.ts';
import { Confirm } from '../ui/dialog.tsx';
import { Name } from '../ui/name.tsx';
import { ListPage } from '../ui/page.tsx';
import { Button, Empty, State, type Tone } from '../ui/parts.tsx';
import { numberColumn, type TableColumn } from '../ui/table.tsx';

const tones: Readonly<Record<GatewayStatus['state'], Tone>> = {
  SYNCED: 'good',
  LAGGING: 'warn',
  STALE: 'bad',
  DIVERGED: 'bad',
};
/** Time in seconds without a report after which a gateway's data count as out of date. Gateways report about every second. */
const silentSeconds = 10;

export function GatewaysPage() {
  const list = useRead('gateway.list', {}, { everyMs: 1000 });
  const [forgetting, setForgetting] = useState<string | undefined>();
  return (
    <ListPage
      title="Gateways"
      lead="How far each gateway has read the log, and how fresh its state is."
      cli="headgate gateway list"
      list={list}
      columns={gatewayColumns(setForgetting)}
      keyOf={({ name, incarnation }) => `${name} ${incarnation}`}
      empty={
        <Empty title="No gateway has reported yet">
          <p>
            Start one with <code>headgate gateway --log URL --control-plane URL --data FOLDER</code>. It
            appears here within seconds.
          </p>
        </Empty>
      }
    >
      {forgetting === undefined ? null : (
        <Confirm
          title={`Forget ${forgetting}`}
          action="Forget gateway"
          name={forgetting}
          onClose={() => setForgetting(undefined)}
          work={async () => {
            await call('gateway.forget', { name: forgetting });
          }}
        >
          <p>
            Forget only gateways that have been removed. Revocations then no longer wait for them. A gateway
            that still runs appears again with its next report.
          </p>
        </Confirm>
      )}
    </ListPage>
  );
}

function gatewayColumns(onForget: (name: string) => void): readonly TableColumn<GatewayStatus>[] {
  return [
    {
      name: 'Name',
      isTitle: true,
      value: ({ name }) => name,
      cell: ({ name }) => (
        <Name of={{ kind: 'gateway', id: name }}>
          <strong>{name}</strong>
        </Name>
      ),
    },
    { name: 'State', value: ({ state }) => state, cell: (gateway) => <GatewayState gateway={gateway} /> },
    numberColumn('Applied', ({ applied }) => applied),
    numberColumn('Lag', ({ lagEvents }) => lagEvents),
    {
      name: 'Freshness',
      value: ({ freshSeconds }) => freshSeconds ?? Number.MAX_SAFE_INTEGER,
      cell: (gateway) => <Freshness gateway={gateway} />,
    },
    {
      name: 'Digest',
      value: ({ digest }) => digest,
      cell: ({ digest }) => <code title={digest}>{digest.slice(0, 8)}</code>,
    },
    ...memberColumns,
    numberColumn(
      'Last seen',
      ({ seenSeconds }) => seenSeconds,
      ({ seenSeconds }) => `${seconds(seenSeconds)} ago`,
    ),
    {
      name: 'Actions',
      isAction: true,
      cell: ({ name, seenSeconds }) =>
        seenSeconds > silentSeconds ? (
          <Button aria-label={`Forget ${name}`} onClick={() => onForget(name)}>
            Forget
          </Button>
        ) : null,
    },
  ];
}

/** Columns for the members of gateway reports, built from the schema's table of these members. */
export const memberColumns: readonly TableColumn<GatewayStatus>[] = shownColumns.flatMap(
  ({ term: name, member, text, tone }) => {
    if (name === undefined) return [];
    const cell = ({ [member]: value }: GatewayStatus) => {
      if (value === undefined) return '–';
      const sign = tone(value);
      return sign === undefined ? text(value) : <State tone={sign}>{text(value)}</State>;
    };
    return [{ name, value: ({ [member]: value = '' }: GatewayStatus) => String(value), cell }];
  },
);

export function GatewayState({
  gateway: { state, seenSeconds, halted, conflict, log },
}: {
  readonly gateway: GatewayStatus;
}) {
  const why = halted ?? conflict ?? (log === undefined ? undefined : 'follows another log');
  return (
    <>
      {seenSeconds > silentSeconds ? (
        <State tone="bad">silent, was {state}</State>
      ) : (
        <State tone={tones[state]}>{state}</State>
      )}
      {why === undefined ? null : <small class="why muted">{why}</small>}
    </>
  );
}

/** Ages of the freshness proof in seconds that the bar marks: late, warning and fenced. */
const ladder = [15, 30, fencedSeconds] as const;

export function Freshness({ gateway: { freshSeconds } }: { readonly gateway: GatewayStatus }) {
  if (freshSeconds === null) return <State tone="bad">not proven</State>;
  const [late, warn, fenced] = ladder;
  const tone: Tone = freshSeconds < late ? 'good' : freshSeconds < fenced ? 'warn' : 'bad';
  const share = Math.min(1, freshSeconds / fenced);
  return (
    <span
      class={`ladder ${tone}`}
      title={`Last proof ${seconds(freshSeconds)} ago. Marks at ${late}, ${warn} and ${fenced} s.`}
    >
      <svg viewBox="0 0 90 8" width="90" height="8" aria-hidden="true">
        <rect width="90" height="8" rx="4" class="track" />
        <rect width={Math.max(4, 90 * share)} height="8" rx="4" class="fill" />
        <path d="M30 0v8M60 0v8" class="step" />
      </svg>
      {seconds(freshSeconds)}
    </span>
  );
}
