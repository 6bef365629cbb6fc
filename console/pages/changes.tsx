/** Page about changes that are released in waves. It shows the open change with its figures, and changes that have ended. */
import { useState } from 'preact/hooks';
import type { OperationAnswer } from '../../schemas/admin/admin.ts';
import { call } from '../lib/api.ts';
import { ago, count, plural, shellWord } from '../lib/format.ts';
import { useRead } from '../lib/read.ts';
import { Confirm } from '../ui/dialog.tsx';
import { commaSeparated, Name } from '../ui/name.tsx';
import { Answer, PageHeader } from '../ui/page.tsx';
import { Button, Card, Empty, Facts, State, type Tone } from '../ui/parts.tsx';
import { Table } from '../ui/table.tsx';

type Change = OperationAnswer<'change.list'>['items'][number];
type Wave = Change['waves'][number];
type Figures = NonNullable<Change['figures']>;
type Step = 'advance' | 'withdraw';

const tones: Readonly<Record<Change['state'], Tone>> = { open: 'info', completed: 'good', withdrawn: 'bad' };

export function ChangesPage() {
  const list = useRead('change.list', {}, { everyMs: 1000 });
  return (
    <>
      <PageHeader
        title="Changes"
        lead="Changes released in waves: to a few gateways first, then to more if nothing goes wrong. A harmful change is rolled back automatically."
        cli="headgate change list"
      />
      <Answer of={list}>
        {({ items }) => {
          const open = items.find(({ state }) => state === 'open');
          const over = items.filter(({ state }) => state !== 'open');
          return (
            <>
              {open ? <OpenChange change={open} /> : <NoChange />}
              {over.length === 0 ? null : <OverChanges changes={over} />}
            </>
          );
        }}
      </Answer>
    </>
  );
}

function NoChange() {
  return (
    <Empty title="No change is being released">
      <p>
        <code>headgate apply -f fleet.yaml --stage</code> starts one. It reaches one gateway first, and is
        rolled back automatically if requests are refused that were served before.
      </p>
    </Empty>
  );
}

function OpenChange({ change }: { readonly change: Change }) {
  const [step, setStep] = useState<Step | undefined>();
  const { id, wave, waves, by, at, next, impossible } = change;
  return (
    <Card
      title={`Change ${id}`}
      label={`Change ${id}`}
      isWide
      more={
        <div class="row">
          <Button
            onClick={impossible === undefined ? () => setStep('advance') : undefined}
            disabled={impossible !== undefined}
          >
            {wave < waves.length ? 'Advance' : 'Complete'}
          </Button>
          <Button onClick={() => setStep('withdraw')}>Withdraw</Button>
        </div>
      }
    >
      <Facts
        items={{
          Started: `${ago(at)} by ${by}`,
          Wave: `${wave} of ${waves.length}`,
          Next: next,
          'Blocked by': impossible,
        }}
      />
      <ol class="waves" aria-label="Waves">
        {waves.map((each, index) => (
          <li key={waveText(each)} aria-current={index + 1 === wave ? 'step' : undefined}>
            <State tone={index + 1 < wave ? 'good' : index + 1 === wave ? 'info' : 'idle'}>
              <WaveName wave={each} />
            </State>
          </li>
        ))}
      </ol>
      {change.figures ? <FigureTable figures={change.figures} /> : null}
      {step === undefined ? null : (
        <StepDialog change={change} step={step} onClose={() => setStep(undefined)} />
      )}
    </Card>
  );
}

function WaveName({ wave }: { readonly wave: Wave }) {
  if (!('gateways' in wave)) return <>{waveText(wave)}</>;
  return <>{commaSeparated(wave.gateways, (id) => [id, <Name key={id} of={{ kind: 'gateway', id }} />])}</>;
}

function waveText(wave: Wave): string {
  if ('gateways' in wave) return wave.gateways.join(', ');
  return wave.share === 1 ? 'all gateways' : `${count(wave.share * 100)} % of the gateways`;
}

const sides = ['inside', 'outside'] as const;
const sideNames = { inside: 'With the change', outside: 'Without the change' } as const;

function FigureTable({ figures }: { readonly figures: Figures }) {
  return (
    <Table
      caption="Since this wave began"
      rows={sides.map((side) => ({ side, ...figures[side] }))}
      keyOf={({ side }) => side}
      empty={null}
      columns={[
        { name: 'Gateways', isTitle: true, cell: ({ side }) => <strong>{sideNames[side]}</strong> },
        { name: 'Reporting', isNumber: true, cell: ({ gateways }) => count(gateways) },
        { name: 'Requests', isNumber: true, cell: ({ requests }) => count(requests) },
        { name: 'Refused', isNumber: true, cell: refusedText },
        { name: 'Internal errors', isNumber: true, cell: ({ errors }) => count(errors) },
        { name: 'Node failures', isNumber: true, cell: ({ nodeFailures }) => count(nodeFailures) },
        {
          name: 'Time added (p95)',
          isNumber: true,
          cell: ({ ownP95Ms }) => (ownP95Ms === undefined ? '–' : `${ownP95Ms} ms`),
        },
      ]}
    />
  );
}

function refusedText({ requests, refusals }: Figures['inside']): string {
  return requests === 0 ? '–' : `${count(refusals)} (${((100 * refusals) / requests).toFixed(1)} %)`;
}

interface StepDialogProps {
  readonly change: Change;
  readonly step: Step;
  readonly onClose: () => void;
}

function StepDialog({ change: { id, wave, waves }, step, onClose }: StepDialogProps) {
  const following = waves[wave];
  const texts = {
    advance: following
      ? `Wave ${wave + 1} starts now at ${waveText(following)}, whatever the figures show.`
      : 'The change takes effect on all gateways, like any other commit.',
    withdraw: 'Gateways that already have the change are rolled back immediately.',
  };
  const action = step === 'withdraw' ? 'Withdraw' : following ? 'Advance' : 'Complete';
  return (
    <Confirm
      title={`${action} change ${id}`}
      action={action}
      cli={`headgate change ${step} ${shellWord(id)}${step === 'advance' ? ` --in-wave ${wave}` : ''}`}
      onClose={onClose}
      work={async () => {
        await (step === 'advance'
          ? call('change.advance', { id, inWave: wave })
          : call('change.withdraw', { id }));
      }}
    >
      <p>{texts[step]}</p>
    </Confirm>
  );
}

function OverChanges({ changes }: { readonly changes: readonly Change[] }) {
  return (
    <Table
      caption="Closed changes"
      rows={changes}
      keyOf={({ id }) => id}
      empty={null}
      columns={[
        { name: 'Change', isTitle: true, value: ({ id }) => id, cell: ({ id }) => <strong>{id}</strong> },
        {
          name: 'State',
          value: ({ state }) => state,
          cell: ({ state }) => <State tone={tones[state]}>{state}</State>,
        },
        { name: 'Started', value: ({ at }) => at, cell: ({ at, by }) => `${ago(at)} by ${by}` },
        {
          name: 'Reached',
          value: ({ wave }) => wave,
          cell: ({ wave, waves }) => `${count(wave)} of ${plural(waves.length, 'wave')}`,
        },
        { name: 'Reason', value: ({ reason = '' }) => reason, cell: ({ reason = '–' }) => reason },
      ]}
    />
  );
}
