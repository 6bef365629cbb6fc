/** Asks all gateways for a sample of the last hour's decisions, as text that another thread parses and re-evaluates. */

import { gatewaySampleEndSchema, sampledMax } from '../../schemas/admin/gateway-requests.ts';
import { hourMs } from '../../schemas/durations.ts';
import { ask, askAll, type DecisionSources, resolveRoute, type Source, type Way } from './ask-decisions.ts';
import { askedSources, buildPath } from './ask-requests.ts';
import type { FleetTraffic } from './fleet-traffic.ts';

export interface RecordedSample {
  /** Parts of the gateways' responses. Each line is a sampled decision that matches `gatewaySampledSchema`. */
  readonly texts: readonly string[];
  readonly decisions: number;
  /** Start of the time that the sample covers, ms since 1970. */
  readonly sinceMs: number;
  readonly asked: readonly Source[];
  /** Names of the gateways that did not answer. */
  readonly silent: readonly string[];
}

type Answer = Pick<RecordedSample, 'texts' | 'decisions' | 'sinceMs'>;

/** Time limit in ms for a gateway to read an hour of its records. */
const timeoutMsDefault = 5_000;
/** Maximum average length of a decision in characters. */
const charactersPerLineMax = 2_000;

interface SampleSources extends DecisionSources {
  readonly traffic: Pick<FleetTraffic, 'now'>;
}

/** Samples recent requests of one organisation, or of all if it is undefined. Never rejects. Stops when `client` aborts. */
export async function askSample(
  sources: SampleSources,
  organisation: string | undefined,
  client: AbortSignal,
): Promise<RecordedSample> {
  const found = askedSources(sources, { filter: {}, gateway: undefined });
  const sampled = Math.max(1, Math.floor(sampledMax / Math.max(1, found.length)));
  const sinceMs = sources.traffic.now() - hourMs;
  const path = buildPath('/requests/sample', { organisation, sinceMs, sampled });
  const way = resolveRoute(sources, client, sources.askTimeoutMs ?? timeoutMsDefault);
  const charactersMax = (sampled + 1) * charactersPerLineMax;
  const { answers, silent } = await askAll(found, (source) =>
    readSample(source, { path, way, charactersMax }),
  );
  return {
    texts: answers.flatMap(({ texts }) => texts),
    decisions: answers.reduce((sum, { decisions }) => sum + decisions, 0),
    asked: found,
    sinceMs: Math.max(sinceMs, ...answers.map((answer) => answer.sinceMs)),
    silent,
  };
}

async function readSample(
  source: Source,
  { path, way, charactersMax }: { readonly path: string; readonly way: Way; readonly charactersMax: number },
): Promise<Answer> {
  const texts: string[] = [];
  let [characters, lines] = [0, 0];
  for await (const text of ask(source, path, way)) {
    characters += text.length;
    if (characters > charactersMax) throw new Error('the response contains more than was requested');
    texts.push(text);
    lines += text.split('\n').length - 1;
  }
  const last = texts.pop() ?? '';
  return { texts, decisions: lines - 1, ...gatewaySampleEndSchema.parse(JSON.parse(last)) };
}
