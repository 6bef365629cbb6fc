/** Shows the latest refused requests, each with a link to its explanation. */
import { explainLink } from '../lib/explain.ts';
import { ago, nameSome } from '../lib/format.ts';
import { useRead } from '../lib/read.ts';
import { requestsLink } from '../lib/request-filter.ts';
import { moment } from '../lib/travel.ts';
import { Name } from '../ui/name.tsx';
import { Card, State } from '../ui/parts.tsx';

const shown = 8;
const everyMs = 10_000;

/** Lists the refusals of one organisation or, for operators, of all callers. */
export function LatestRefusals({ organisation }: { readonly organisation: string | undefined }) {
  const refused = { outcome: 'refused', organisation, limit: shown } as const;
  const { data } = useRead(moment() === undefined ? 'request.list' : undefined, refused, { everyMs });
  if (!data) return null;
  const { items, silent } = data;
  const all = requestsLink({ outcome: 'refused', ...(organisation !== undefined && { organisation }) });
  return (
    <Card title="Latest refusals" label="Latest refusals" more={<a href={all}>All refused requests</a>}>
      {items.length === 0 ? <State tone="good">No refused requests are stored.</State> : null}
      <ul class="rows refusals" aria-label="Latest refusals">
        {items.map(({ request, status, type, model, at, ...row }) => (
          <li key={request}>
            <a href={explainLink({ request })}>
              {status} {type}
            </a>
            <span class="refusal-end row">
              {organisation !== undefined || row.organisation === undefined ? null : (
                <Name of={{ kind: 'organisation', id: row.organisation }} />
              )}
              <span class="muted">
                {model === undefined ? null : (
                  <>
                    <Name of={{ kind: 'model', id: model }} />,{' '}
                  </>
                )}
                <time dateTime={at}>{ago(at)}</time>
              </span>
            </span>
          </li>
        ))}
      </ul>
      {silent.length === 0 ? null : (
        <p class="muted">Refusals of these gateways are missing: {nameSome(silent)}</p>
      )}
    </Card>
  );
}
