/** Small plots that cover the same time range and share a cursor. */
import type { ComponentChildren } from 'preact';
import { clock } from '../lib/format.ts';
import { type Hour, type PlotLine, pointed } from '../lib/traffic.ts';

const [width, height] = [360, 60];

export interface PlotProps {
  readonly name: string;
  readonly lines: readonly PlotLine[];
  readonly text: (value: number) => string;
}

export function Plot({ name, lines, text }: PlotProps) {
  const count = lines[0]?.values.length ?? 1;
  const at = pointed.value ?? count - 1;
  const most = Math.max(0, ...lines.flatMap(({ values }) => values.filter((value) => value !== undefined)));
  const shown = (value: number | undefined): string => (value === undefined ? '–' : text(value));
  return (
    <figure class="plot">
      <figcaption class="row small">
        <span class="plot-name muted">{name}</span>
        {lines.length === 1 && lines[0]?.name === name ? (
          <strong>{shown(lines[0]?.values[at])}</strong>
        ) : (
          <span class="plot-lines row">
            {lines.map((line, index) => (
              <span key={line.name} class={`line-${index}`}>
                <i aria-hidden="true" /> {line.name} <strong>{shown(line.values[at])}</strong>
              </span>
            ))}
          </span>
        )}
      </figcaption>
      <svg
        viewBox={`0 0 ${width} ${height}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={`${name}, at most ${text(most)}`}
        onPointerMove={({ currentTarget, clientX }) => {
          const { left, width: wide } = currentTarget.getBoundingClientRect();
          const place = Math.floor(((clientX - left) / Math.max(1, wide)) * count);
          pointed.value = Math.min(count - 1, Math.max(0, place));
        }}
        onPointerLeave={() => {
          pointed.value = undefined;
        }}
      >
        <path class="plot-ground" d={`M0 ${height - 0.5}H${width}`} />
        {lines.map(({ name: line, values }, index) => (
          <path key={line} class={`plot-line line-${index}`} d={linePath(values, most)} />
        ))}
        {pointed.value === undefined ? null : (
          <path class="plot-cursor" d={`M${(at + 0.5) * (width / count)} 0V${height}`} />
        )}
      </svg>
      <span class="plot-most muted" aria-hidden="true">
        {text(most)}
      </span>
    </figure>
  );
}

/** Returns the SVG path of a line. The line has gaps at missing values. A single value becomes a short stroke. */
function linePath(values: readonly (number | undefined)[], most: number): string {
  const step = width / Math.max(1, values.length);
  let path = '';
  let isDown = false;
  for (const [at, value] of values.entries()) {
    const y = (height - 2 - ((height - 6) * (value ?? 0)) / Math.max(most, Number.MIN_VALUE)).toFixed(1);
    if (value !== undefined) path += `${isDown ? 'L' : 'M'}${(at * step).toFixed(1)} ${y}h${step.toFixed(2)}`;
    isDown = value !== undefined;
  }
  return path;
}

export interface PlotsProps {
  readonly name: string;
  readonly hour: Hour;
  /** Describes the values at the cursor, for screen readers. */
  readonly textAt: (step: number) => string;
  readonly children: ComponentChildren;
}

/** Plots with a common time axis. Arrow keys move the cursor by one step, and Page Up and Page Down by one minute. */
export function Plots({ name, hour, textAt, children }: PlotsProps) {
  const { stepMs, untilMs, steps } = hour;
  const last = steps.length - 1;
  const at = pointed.value ?? last;
  const timeOf = (step: number): string => clock(new Date(untilMs - (last - step) * stepMs).toISOString());
  const onKeyDown = (event: KeyboardEvent): void => {
    const to = nextStep(event.key, at, last);
    if (to === undefined) return;
    event.preventDefault();
    pointed.value = Math.min(last, Math.max(0, to));
  };
  return (
    <>
      <div class="plots">{children}</div>
      <div
        class="plot-axis ends muted small"
        role="slider"
        tabIndex={0}
        aria-label={`Time in ${name}`}
        aria-valuemin={0}
        aria-valuemax={last}
        aria-valuenow={at}
        aria-valuetext={`${timeOf(at)}: ${textAt(at)}`}
        onKeyDown={onKeyDown}
        onBlur={() => {
          pointed.value = undefined;
        }}
      >
        <span>{timeOf(0)}</span>
        <strong>{pointed.value === undefined ? '' : timeOf(at)}</strong>
        <span>{timeOf(last)}</span>
      </div>
    </>
  );
}

const stepsOfPage = 6;

function nextStep(key: string, at: number, last: number): number | undefined {
  const places: Readonly<Record<string, number>> = {
    ArrowLeft: at - 1,
    ArrowDown: at - 1,
    ArrowRight: at + 1,
    ArrowUp: at + 1,
    PageDown: at - stepsOfPage,
    PageUp: at + stepsOfPage,
    Home: 0,
    End: last,
  };
  return places[key];
}
