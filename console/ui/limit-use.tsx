/** Shows how much of a limit is used, as numbers and as a meter. */
import type { LimitUse } from '../../schemas/admin/admin.ts';
import { count, day } from '../lib/format.ts';
import { Name } from './name.tsx';
import { Facts, State } from './parts.tsx';

export interface UsedProps {
  readonly name: string;
  /** Amount used, or null if it is unknown at present. */
  readonly used: number | null;
  /** Limit, or null if there is none. */
  readonly limit: number | null;
}

export function Used({ name, used, limit }: UsedProps) {
  const share = used === null || limit === null ? undefined : Math.min(1, used / Math.max(1, limit));
  return (
    <span class="used">
      <span>
        {used === null ? (limit === null ? '' : '–') : count(used)}
        <span class="muted">
          {limit !== null ? ` of ${count(limit)}` : used === null ? 'no limit' : ', no limit'}
        </span>
      </span>
      {share === undefined ? null : (
        <meter
          aria-label={`${name}, share of the limit`}
          min={0}
          max={1}
          high={0.8}
          optimum={0}
          value={share}
        >
          {Math.round(share * 100)} %
        </meter>
      )}
    </span>
  );
}

export function refill({ tokens: { refillsAt } }: LimitUse) {
  return <time dateTime={refillsAt}>{day(refillsAt)}</time>;
}

export function TierInUse({ use: { tier, suspended } }: { readonly use: LimitUse }) {
  if (suspended) return <State tone="bad">suspended</State>;
  return tier === null ? 'none' : <Name of={{ kind: 'tier', id: tier }} />;
}

export function LimitFacts({ use }: { readonly use: LimitUse }) {
  const { requests, concurrency, tokens, organisation } = use;
  const counted = organisation === null ? 'Tokens used today' : 'Allowance used';
  return (
    <Facts
      items={{
        Tier: <TierInUse use={use} />,
        'Requests this minute': (
          <Used name="Requests this minute" used={requests.used} limit={requests.limit} />
        ),
        'In flight': <Used name="In flight" used={concurrency.inFlight} limit={concurrency.limit} />,
        [counted]: <Used name={counted} used={tokens.used} limit={tokens.limit} />,
        'Next refill': refill(use),
      }}
    />
  );
}
