/** The state of a node as one word, and what it is loading. */
import type { LiveNodeResource } from '../../schemas/admin.ts';
import { State } from '../ui/parts.tsx';

export function NodeState({ node: { up, drained, reason } }: { readonly node: LiveNodeResource }) {
  if (drained) return <State tone="idle">drained</State>;
  if (up) return <State tone="good">up</State>;
  return (
    <span title={reason}>
      <State tone="bad">down</State>
    </span>
  );
}

/** What its agent is loading, or could not load. */
export function Installs({ node: { installs = [] } }: { readonly node: LiveNodeResource }) {
  if (installs.length === 0) return null;
  return (
    <ul class="installs">
      {installs.map((install) => (
        <li key={install.model}>
          <InstallState install={install} about={install.model} />
        </li>
      ))}
    </ul>
  );
}

type Install = NonNullable<LiveNodeResource['installs']>[number];

export function InstallState({
  install: { state, percent, reason },
  about,
}: {
  readonly install: Install;
  /** The model, or the node that loads it. */
  readonly about: string;
}) {
  if (state === 'failed')
    return (
      <State tone="bad">
        {about}: {reason ?? 'could not be loaded'}
      </State>
    );
  return (
    <State tone="info">
      {about}: loading{percent === undefined ? '' : `, ${percent} %`}
    </State>
  );
}
