/** The effect of events: the gateways are asked for what they recorded, and the thread of the history decides it again. */

import { hourMs } from '../../schemas/durations.ts';
import type { Effect } from '../../schemas/effect.ts';
import { wallClockMs } from '../../shared/runtime/clock.ts';
import type { Actor } from '../commands/authorise.ts';
import type { EffectQuestion } from '../explain/effect.ts';
import { askSample, type RecordedSample } from '../gateways/ask-sample.ts';
import { TrafficSteps } from '../gateways/traffic-steps.ts';
import type { PastReader } from '../history/past.ts';
import type { AdminContext } from './context.ts';

const minuteMs = 60_000;

export interface AskedEffect {
  /** The state that the events follow, or a later one. */
  readonly position: number;
  readonly reader: PastReader;
}

/** How many requests each organisation had in its busiest minute of the last hour, as the gateways reported them. */
function busiestMinutes({ traffic }: AdminContext): Map<string, number> {
  const untilMs = wallClockMs();
  const steps = new Map<string, TrafficSteps>();
  for (const counted of traffic.rows(untilMs)) {
    const { organisation } = counted.row;
    if (organisation === undefined) continue;
    const own =
      steps.get(organisation) ?? new TrafficSteps({ untilMs, stepMs: minuteMs, steps: hourMs / minuteMs });
    steps.set(organisation, own);
    own.add(counted, { requests: counted.row.requests });
  }
  const busiest = (own: TrafficSteps): number =>
    Math.round(Math.max(0, ...own.found().map(([, { requests }]) => requests)));
  return new Map([...steps].map(([organisation, own]) => [organisation, busiest(own)]));
}

type AskedEvents = Pick<EffectQuestion, 'events' | 'by' | 'organisation' | 'meant'>;

/** Of a command without events, too: the gateways are not asked for it. */
export async function effectOf(
  context: AdminContext,
  question: AskedEvents,
  asked: AskedEffect & { readonly actor: Actor },
): Promise<Effect> {
  const { events, organisation } = question;
  const sample = events.length === 0 ? undefined : await recordedSample(context, organisation, asked);
  return askEffect(context, question, asked, sample);
}

/** Requests of one organisation, or of all. */
export function recordedSample(
  context: AdminContext,
  organisation: string | undefined,
  { actor, reader: { client } }: Pick<AskedEffect, 'reader'> & { readonly actor: Actor },
): Promise<RecordedSample> {
  return context.requestTurns.run(actor, client, () => askSample(context, organisation, client));
}

/** Without a sample: only of combinations and limits. */
export async function askEffect(
  context: AdminContext,
  question: AskedEvents,
  { position, reader }: AskedEffect,
  sample: RecordedSample | undefined,
): Promise<Effect> {
  const { recorded, ...found } = await context.past.ask(
    'effect',
    [position, { ...question, nowMs: wallClockMs(), busiest: busiestMinutes(context) }, sample?.texts],
    reader,
  );
  if (recorded === undefined || sample === undefined) return found;
  const since = new Date(sample.sinceMs).toISOString();
  return { ...found, recorded: { since, ...recorded, gatewaysSilent: [...sample.silent] } };
}
