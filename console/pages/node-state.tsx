/** The state of a node as one word. */
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
