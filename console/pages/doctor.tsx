/** What the checks of `headgate doctor` find: failures first, each with its next step. */
import type { AdminResponse } from '../../schemas/admin.ts';
import { plural } from '../lib/format.ts';
import { useRead } from '../lib/read.ts';
import { Badge, Empty, Failure, Loading, PageHeader, State } from '../ui/parts.tsx';

type Answer = AdminResponse<'GET /doctor'>;
type Check = Answer['checks'][number];

const everyMs = 15_000;
const tones = { ok: 'good', warn: 'warn', fail: 'bad' } as const;
const order = ['fail', 'warn'] as const;

export function DoctorPage() {
  const { data, failure, refresh } = useRead<Answer>('/doctor', { everyMs });
  return (
    <>
      <PageHeader
        title="Doctor"
        lead={
          data
            ? `${plural(data.ok, 'check')} passed, ${plural(data.warn, 'warning')}, ${plural(data.fail, 'failure')}.`
            : undefined
        }
        cli="headgate doctor"
      >
        <button type="button" class="button" onClick={refresh}>
          Check again
        </button>
      </PageHeader>
      {failure ? <Failure failure={failure} onRetry={refresh} /> : null}
      {data ? <Findings checks={data.checks} /> : failure ? null : <Loading />}
    </>
  );
}

function Findings({ checks }: { readonly checks: readonly Check[] }) {
  const found = order.flatMap((level) => checks.filter((check) => check.level === level));
  if (found.length === 0)
    return (
      <Empty title="Nothing is wrong">
        <p>Each check of the log, the control planes, the gateways, the nodes and the models passed.</p>
      </Empty>
    );
  return (
    <ul class="findings" aria-label="Findings">
      {found.map((check) => (
        <li key={`${check.code} ${check.object ?? ''} ${check.text}`} class={`notice ${tones[check.level]}`}>
          <p>
            <State tone={tones[check.level]}>{check.level === 'fail' ? 'failure' : 'warning'}</State>{' '}
            {check.object === undefined ? null : <strong>{check.object}</strong>} {check.text}
          </p>
          {check.next === undefined ? null : <p>{check.next}</p>}
          <p>
            <Badge>{check.group}</Badge> <code>{check.code}</code>
          </p>
        </li>
      ))}
    </ul>
  );
}
