/** Shows the refusals of the last hour by type, each with a link to the explanation of its newest request. */
import type { OperationAnswer } from '../../schemas/admin/admin.ts';
import { explainLink } from '../lib/explain.ts';
import { ago, nameSome, plural } from '../lib/format.ts';
import { useRead } from '../lib/read.ts';
import { isOperator } from '../lib/session.ts';
import { moment } from '../lib/travel.ts';
import { Name } from '../ui/name.tsx';
import { Card, State } from '../ui/parts.tsx';

type OfAll = OperationAnswer<'activity.get'>;

/** Returns an organisation's refusals or, for operators, all. Returns undefined until they are read, and for past states. */
export function useRefusals(organisation: string | undefined): OfAll | undefined {
  const isNow = moment() === undefined;
  const ofOne = useRead(
    isNow && organisation !== undefined ? 'organisation.activity' : undefined,
    { id: organisation ?? '' },
    { everyMs },
  );
  const ofAll = useRead(
    isNow && organisation === undefined && isOperator() ? 'activity.get' : undefined,
    {},
    { everyMs },
  );
  const data = organisation === undefined ? ofAll.data : ofOne.data;
  return data && { ...data, refusals: data.refusals.toSorted((a, b) => b.lastAt.localeCompare(a.lastAt)) };
}

const everyMs = 15_000;

const shownMax = 12;

export function Refusals({ organisation }: { readonly organisation: string | undefined }) {
  const data = useRefusals(organisation);
  if (!data) return null;
  const { refusals, unanswered, partial } = data;
  return (
    <Card title="Refused in the last hour" label="Refused in the last hour">
      {refusals.length === 0 && unanswered.length === 0 ? (
        <State tone="good">
          {organisation === undefined ? 'No request was refused.' : 'No request with a key was refused.'}
        </State>
      ) : null}
      <ul class="rows refusals" aria-label="Refusals">
        {refusals.slice(0, shownMax).map((refusal) => (
          <li key={`${refusal.organisation ?? ''} ${refusal.status} ${refusal.type}`}>
            <a href={explainLink({ request: refusal.lastRequest })}>
              {refusal.status} {refusal.type}
            </a>
            <span class="refusal-end row">
              {organisation !== undefined ? null : refusal.organisation === undefined ? (
                <span class="muted">unknown key</span>
              ) : (
                <Name of={{ kind: 'organisation', id: refusal.organisation }} />
              )}
              <span class="muted">
                {plural(refusal.requests, 'request')},{' '}
                <time dateTime={refusal.lastAt}>last {ago(refusal.lastAt)}</time>
              </span>
            </span>
          </li>
        ))}
      </ul>
      {partial ? <p class="muted">There were more models than gateways report separately.</p> : null}
      {unanswered.length === 0 ? null : (
        <p class="muted">Refusals by these gateways are not known: {nameSome(unanswered)}</p>
      )}
    </Card>
  );
}
