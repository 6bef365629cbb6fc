/** Shows the traffic of the last hour in small plots, for the fleet or for one organisation, stack, gateway or node. */
import { clock, count, nameSome, tenths } from '../lib/format.ts';
import {
  type Hour,
  type PlotLine,
  rateLine,
  refusalLines,
  type Traffic,
  type TrafficQuery,
  type TrafficStep,
  timeLines,
  toHour,
  useTraffic,
} from '../lib/traffic.ts';
import { moment } from '../lib/travel.ts';
import { Card, Failure } from '../ui/parts.tsx';
import { Plot, Plots } from '../ui/plot.tsx';

const milliseconds = (value: number): string =>
  value < 10
    ? `${tenths(value)} ms`
    : value < 1000
      ? `${count(Math.round(value))} ms`
      : `${tenths(value / 1000)} s`;

/** Card that shows the traffic. It is empty for past states, because the control plane keeps traffic for only one hour. */
export function TrafficCard({ of, more }: { readonly of: TrafficQuery; readonly more?: string }) {
  const { data, failure } = useTraffic(of);
  if (moment() !== undefined) return null;
  return (
    <Card
      title="Traffic"
      label="Traffic"
      isWide
      more={more === undefined ? undefined : <a href={more}>All requests</a>}
    >
      {failure ? <Failure failure={failure} /> : null}
      {data ? <Hours traffic={data} isOfNode={of.node !== undefined} /> : null}
    </Card>
  );
}

function Hours({ traffic, isOfNode }: { readonly traffic: Traffic; readonly isOfNode: boolean }) {
  const { since, until, unanswered, partial, steps } = traffic;
  return (
    <>
      <p class="muted">
        One point per 10 seconds since <time dateTime={since}>{clock(since)}</time>, about 12 seconds behind.
        {unanswered.length === 0 ? '' : ` Nothing is known from ${nameSome(unanswered)}.`}
        {partial ? ' There were more models than gateways report separately.' : ''}
      </p>
      {steps.length === 0 ? (
        <p class="traffic-none">No requests in the hour up to {clock(until)}.</p>
      ) : (
        <HourPlots hour={toHour(traffic)} isOfNode={isOfNode} />
      )}
    </>
  );
}

interface Drawn {
  readonly name: string;
  readonly lines: readonly PlotLine[];
  readonly text: (value: number) => string;
}

/** Selects the plots to draw. A node has no plot of refusals or of the time that gateways add, because it causes neither. */
function selectPlots(hour: Hour, isOfNode: boolean): readonly Drawn[] {
  const rate = (name: string, of: (step: TrafficStep) => number | undefined): Drawn => ({
    name,
    lines: [rateLine(name, hour, of)],
    text: tenths,
  });
  const refused = refusalLines(hour);
  const none = rate('Refusals per second', () => 0);
  const hasInFlight = hour.steps.some((step) => step?.inFlight !== undefined);
  return [
    rate('Requests per second', ({ requestsPerSecond }) => requestsPerSecond),
    ...(isOfNode ? [] : [refused.length === 0 ? none : { ...none, lines: refused }]),
    rate('Tokens per second', ({ tokensPerSecond }) => tokensPerSecond),
    { name: 'Time to first token', lines: timeLines(hour, 'firstTokenMs'), text: milliseconds },
    { name: 'Time added by gateways', lines: timeLines(hour, 'ownTimeMs'), text: milliseconds },
    ...(hasInFlight ? [rate('In flight', ({ inFlight }) => inFlight)] : []),
  ];
}

function HourPlots({ hour, isOfNode }: { readonly hour: Hour; readonly isOfNode: boolean }) {
  const drawn = selectPlots(hour, isOfNode);
  const textAt = (step: number): string =>
    drawn
      .flatMap(({ name, lines, text }) =>
        lines.map((line) => {
          const value = line.values[step];
          const what = line.name === name ? name : `${name}, ${line.name}`;
          return `${what} ${value === undefined ? 'unknown' : text(value)}`;
        }),
      )
      .join('; ');
  return (
    <Plots name="the charts" hour={hour} textAt={textAt}>
      {drawn.map((plot) => (
        <Plot key={plot.name} {...plot} />
      ))}
    </Plots>
  );
}
