/** Which of the candidates of a request is asked: by the prefixes of its prompt, or the less busy of two random ones. */
import type { Decision, RequestFacts } from '../../shared/decision/decide.ts';
import { Refusal } from '../../shared/decision/refusal.ts';
import { type AnyChat, type AnyEmbeddings, prefixesOfChat } from '../shape/outline.ts';
import type { NodeChooser } from '../upstream/affinity.ts';
import type { Gateway } from './gateway.ts';

/** The candidates given to it must be of the one place of the decision. */
export function nodeChooser(
  { affinity, load, lookup }: Pick<Gateway, 'affinity' | 'load' | 'lookup'>,
  { target, model }: Pick<RequestFacts, 'target' | 'model'>,
  { placement, subject: tenant }: Pick<Decision, 'placement' | 'subject'>,
  inner: AnyChat | AnyEmbeddings,
): NodeChooser {
  if (placement instanceof Refusal || inner.kind === 'embeddings' || !lookup.hasAffinity(model))
    return (left) => load.choose(left);
  const { capacity } = placement;
  const place =
    capacity === 'pool' ? 'pool' : target.kind === 'stack' ? `stack:${target.stack}` : `own:${tenant}`;
  return (left) =>
    affinity.choose(left, {
      tenant,
      group: `${place} ${model}`,
      get prefixes() {
        return prefixesOfChat(inner);
      },
    });
}
