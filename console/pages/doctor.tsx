/** Page with the findings of `headgate doctor`. Failures come first, and each finding states the next step. */
import type { OperationAnswer } from '../../schemas/admin/admin.ts';
import { plural, sentence } from '../lib/format.ts';
import { useRead } from '../lib/read.ts';
import { Name } from '../ui/name.tsx';
import { Answer, PageHeader } from '../ui/page.tsx';
import { Badge, Button, Empty, State } from '../ui/parts.tsx';

type Found = OperationAnswer<'doctor.get'>;
type Check = Found['checks'][number];

const everyMs = 15_000;
const tones = { ok: 'good', warn: 'warn', fail: 'bad' } as const;
const order = ['fail', 'warn'] as const;

export function DoctorPage() {
  const read = useRead('doctor.get', {}, { everyMs });
  const { data, refresh } = read;
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
        <Button onClick={refresh}>Check again</Button>
      </PageHeader>
      <Answer of={read}>{({ checks }) => <Findings checks={checks} />}</Answer>
    </>
  );
}

function Findings({ checks }: { readonly checks: readonly Check[] }) {
  const found = order.flatMap((level) => checks.filter((check) => check.level === level));
  if (found.length === 0)
    return (
      <Empty title="No problems found">
        <p>All checks of the log, control planes, gateways, nodes and models passed.</p>
      </Empty>
    );
  return (
    <ul class="findings" aria-label="Findings">
      {found.map((check) => (
        <li key={`${check.code} ${check.object ?? ''} ${check.text}`} class={`notice ${tones[check.level]}`}>
          <Finding check={check} />
          <Others check={check} />
        </li>
      ))}
    </ul>
  );
}

/** Lists further findings of the check, in addition to the one that the page shows in full. */
function Others({ check: { findings = 1, examples = [], group } }: { readonly check: Check }) {
  if (findings === 1) return null;
  const unnamed = findings - 1 - examples.length;
  return (
    <details>
      <summary>{plural(findings - 1, 'more finding')} of this kind</summary>
      <ul>
        {examples.map(({ object, text }) => (
          <li key={`${object ?? ''} ${text}`}>
            <Subject object={object} group={group} /> <span class="verbatim">{text}</span>
          </li>
        ))}
        {unnamed === 0 ? null : <li>and {unnamed} others</li>}
      </ul>
    </details>
  );
}

function Finding({ check: { level, object, text, next, group, code } }: { readonly check: Check }) {
  return (
    <>
      <p>
        <State tone={tones[level]}>{level === 'fail' ? 'failure' : 'warning'}</State>{' '}
        <Subject object={object} group={group} /> <span class="verbatim">{text}</span>
      </p>
      {next === undefined ? null : <p class="verbatim">{sentence(next)}</p>}
      <p>
        <Badge>{group}</Badge> <code>{code}</code>
      </p>
    </>
  );
}

/** Kinds of the objects that have pages, by group of checks. */
const kinds: Readonly<Record<string, 'node' | 'gateway'>> = { nodes: 'node', gateways: 'gateway' };

interface SubjectProps {
  /** Object of a finding, such as `node-1`, `node-1/model` or `stack:ID/model`. */
  readonly object: string | undefined;
  readonly group: string;
}

function Subject({ object, group }: SubjectProps) {
  if (object === undefined) return null;
  const [id = '', ...rest] = object.split('/');
  const [, stack] = /^stack:(.+)$/.exec(id) ?? [];
  const kind = stack === undefined ? kinds[group] : 'stack';
  const model = rest.join('/');
  return (
    <strong>
      {kind === undefined ? id : <Name of={{ kind, id: stack ?? id }} />}
      {model === '' ? null : <>/{<Name of={{ kind: 'model', id: model }} />}</>}:
    </strong>
  );
}
