/** Computes the effect of events. The history thread decides recorded and reported requests again. */

import type { Effect } from '../../schemas/admin/effect.ts';
import { hourMs } from '../../schemas/durations.ts';
import type { PlaceKey } from '../../schemas/names.ts';
import type { TrafficRow } from '../../schemas/records/traffic.ts';
import type { Actor } from '../commands/authorise.ts';
import type { PlaceTraffic } from '../commands/definition.ts';
import type { EffectQuestion } from '../explain/effect.ts';
import type { ReportedRequests } from '../explain/effect-reported.ts';
import { askSample, type RecordedSample } from '../gateways/ask-sample.ts';
import { TrafficSteps } from '../gateways/traffic-steps.ts';
import type { PastReader } from '../history/past.ts';
import type { AdminContext, GatewayQuestions } from './context.ts';

type Context = Pick<AdminContext, GatewayQuestions | 'past' | 'traffic'>;

const minuteMs = 60_000;

export interface AskedEffect {
  /** Position of the state on which the events were planned. Their effect may be computed on a later state. */
  readonly position: number;
  readonly reader: PastReader;
}

/** Returns the number of requests in each organisation's busiest minute of the last hour, from the gateways' reports. */
function busiestMinutes({ traffic }: Context): Map<string, number> {
  const untilMs = traffic.now();
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

/** Computes the effect of events on recorded requests. Does not ask the gateways if there are no events. */
export async function computeEffect(
  context: Context,
  question: AskedEvents,
  asked: AskedEffect & { readonly actor: Actor },
): Promise<Effect> {
  const { events, organisation } = question;
  const sample = events.length === 0 ? undefined : await recordedSample(context, organisation, asked);
  return askEffect(context, question, asked, sample);
}

/** Samples the recorded requests of one organisation, or of all if it is undefined. */
export function recordedSample(
  context: Context,
  organisation: string | undefined,
  { actor, reader: { client } }: Pick<AskedEffect, 'reader'> & { readonly actor: Actor },
): Promise<RecordedSample> {
  return context.gatewayTurns.run(actor, client, () => askSample(context, organisation, client));
}

/** Returns requests that only traffic reports contain, because their gateways do not answer or have ended. */
export function reportedRequests(
  { traffic }: Context,
  { asked, silent }: RecordedSample,
  organisation: string | undefined,
): ReportedRequests[] {
  const answered = new Set(asked.filter(({ name }) => !silent.includes(name)).map(({ records }) => records));
  const sums = new Map<string, ReportedRequests>();
  const ofOrganisations = new Map<string, number>();
  for (const { row, records, isRest } of traffic.rows(traffic.now(), { organisation })) {
    const { organisation: id, stack, model } = row;
    // Skips the rest row, which has no organisation, and listings, which have no model.
    if (answered.has(records) || isRest || id === undefined || model === undefined) continue;
    const served = countServed(row);
    const key = JSON.stringify([id, stack, model]);
    const requests = (sums.get(key)?.requests ?? 0) + served;
    sums.set(key, { organisation: id, stack, model, requests, perMinute: 0 });
    ofOrganisations.set(id, (ofOrganisations.get(id) ?? 0) + served);
  }
  const minutes = hourMs / minuteMs;
  return [...sums.values()]
    .filter(({ requests }) => requests > 0)
    .map((row) => ({
      ...row,
      perMinute: Math.floor((ofOrganisations.get(row.organisation) ?? 0) / minutes),
    }));
}

function countServed({ requests, refused = {} }: TrafficRow): number {
  return Object.values(refused).reduce((left, each) => left - each.requests, requests);
}

/** Returns the reported requests of the last hour for a model that nodes of the place could have answered. */
export function placeTraffic({ traffic }: Context, place: PlaceKey, model: string): PlaceTraffic {
  const [kind, id] = place.split(':', 2);
  const organisations = new Set<string>();
  let requests = 0;
  for (const { row } of traffic.rows(traffic.now(), {
    model,
    ...(kind !== 'pool' && { [kind ?? '']: id }),
  })) {
    const served = countServed(row);
    if (row.organisation === undefined || served <= 0 || (kind !== 'stack' && row.stack !== undefined))
      continue;
    organisations.add(row.organisation);
    requests += served;
  }
  return { requests, organisations: [...organisations] };
}

/** Names gateways that may have served requests in the last hour but neither answer nor have a readable report. */
export function unseenGateways({ traffic }: Context, { asked, silent }: RecordedSample): string[] {
  const nowMs = traffic.now();
  const reporting = new Set(traffic.reports(nowMs).map(({ records }) => records));
  return asked
    .filter(({ name, records, countsTraffic }) => {
      const isReadable = countsTraffic && !traffic.isUnread(records, nowMs);
      return silent.includes(name) && !isReadable && !reporting.has(records);
    })
    .map(({ name }) => name);
}

/** Asks the history thread to decide sampled requests again. Without a sample, returns only the lowered limits. */
export async function askEffect(
  context: Context,
  question: AskedEvents,
  { position, reader }: AskedEffect,
  sample: RecordedSample | undefined,
): Promise<Effect> {
  const reported = sample && reportedRequests(context, sample, question.organisation);
  const { recorded, ...found } = await context.past.ask(
    'effect',
    [
      position,
      { ...question, nowMs: context.traffic.now(), busiest: busiestMinutes(context), reported },
      sample?.texts,
    ],
    reader,
  );
  if (recorded === undefined || sample === undefined) return found;
  const unseen = unseenGateways(context, sample);
  return {
    ...found,
    recorded: {
      since: new Date(sample.sinceMs).toISOString(),
      ...recorded,
      gatewaysSilent: [...sample.silent],
      ...(unseen.length > 0 && { gatewaysUnseen: unseen }),
    },
  };
}
