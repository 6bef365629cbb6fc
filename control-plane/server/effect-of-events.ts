/** The effect of events: the gateways are asked for what they recorded, and the thread of the history decides it again. */
import type { Effect } from '../../schemas/effect.ts';
import type { Actor } from '../commands/authorise.ts';
import type { EffectQuestion } from '../explain/effect.ts';
import { askSample } from '../gateways/ask-sample.ts';
import type { PastReader } from '../history/past.ts';
import type { AdminContext } from './context.ts';

export interface AskedEffect {
  readonly actor: Actor;
  /** The state that the events follow, or a later one. */
  readonly position: number;
  readonly reader: PastReader;
}

/** Of a command without events, too: the gateways are not asked for it. */
export async function effectOf(
  context: AdminContext,
  { events, by, organisation }: Pick<EffectQuestion, 'events' | 'by' | 'organisation'>,
  { actor, position, reader }: AskedEffect,
): Promise<Effect> {
  const sample =
    events.length === 0
      ? undefined
      : await context.requestTurns.run(actor, reader.client, () =>
          askSample(context, organisation, reader.client),
        );
  const { recorded, ...found } = await context.past.ask(
    'effect',
    [position, { events, by, organisation, nowMs: Date.now() }, sample?.texts],
    reader,
  );
  if (recorded === undefined || sample === undefined) return found;
  const since = new Date(sample.sinceMs).toISOString();
  return { ...found, recorded: { since, ...recorded, gatewaysSilent: [...sample.silent] } };
}
