/** Formats an explanation to fit the terminal. If output is not a terminal, prints one line per step for easy searching. */
import type { ExplainedStep, Explanation } from '../../schemas/records/explanations.ts';
import type { Line, Part } from '../terminal/render.ts';

const signs = { ok: '✓', refused: '⨉', skipped: '–', assumed: '~' } as const;
const styles = { ok: 'good', refused: 'bad', skipped: 'faint', assumed: 'warn' } as const;
const textWidthMax = 56;
const signWidth = 3;
const nameWidthMin = 12;
/** Indent in characters of the sections below the steps. */
const indent = 8;
const marker = '◀ decided it';

export interface Page {
  readonly explanation: Explanation;
  /** The request as the user described it. */
  readonly request: string | undefined;
  /** Width of the terminal in characters, or undefined if lines may have any length. */
  readonly columns: number | undefined;
}

export function explanationLines(page: Page): Line[] {
  const { explanation, columns } = page;
  const { steps, before, would, same, assumptions, diff } = explanation;
  const labelled = (label: string, texts: readonly string[]): Line[] =>
    texts.flatMap((text, at) =>
      wrapText(at === 0 ? label.padEnd(indent) : ' '.repeat(indent), text, columns),
    );
  return [
    ...verdictLines(page),
    '',
    ...stepsLines(explanation, columns),
    '',
    ...labelled('before', before ? [`at ${before.position} the answer was ${answerText(before)}`] : []),
    ...labelled('would', wouldTexts(would, columns)),
    ...labelled(
      'proof',
      same === undefined ? [] : [`this build decides ${same ? 'the same ✓' : 'differently ⨉'}`],
    ),
    ...labelled('assumed', assumptions),
    ...(steps.length === 0 || diff === undefined ? [] : labelled('diff', diffTexts(diff))),
  ];
}

function verdictLines({ explanation, request, columns }: Page): Line[] {
  const { verdict, at, gateway, time, cause } = explanation;
  const { outcome, message } = verdict;
  // Omit the cause if the message already says who ended the request.
  const text = outcome === 'ended' && message ? message : `${outcome.padEnd(8)} ${answerText(verdict)}`;
  const where = [
    ...(gateway === undefined ? [] : [gateway]),
    ...(time === undefined ? [] : [time]),
    `position ${at}`,
    ...(cause === undefined ? [] : [`cause ${cause}`]),
    ...(request?.startsWith('req_') ? [request] : []),
  ].join(' · ');
  const answer: Part = { text, style: outcome === 'served' ? 'good' : 'bad' };
  const fits = columns === undefined || answer.text.length + 3 + where.length <= columns;
  return [
    ...(fits ? [[answer, `   ${where}`]] : [[answer], ...wrapText(' '.repeat(9), where, columns)]),
    ...(message === undefined || text === message ? [] : wrapText(' '.repeat(9), `"${message}"`, columns)),
  ];
}

function answerText({
  status,
  type,
}: {
  readonly status?: number | undefined;
  readonly type?: string | undefined;
}): string {
  return [status, type].filter((each) => each !== undefined).join(' ');
}

/** Shows every step. Steps after the refusal are dimmed, because the request never reached them. */
function stepsLines({ steps, decisive }: Explanation, columns: number | undefined): Line[] {
  const width = Math.min(textWidthMax, Math.max(0, ...steps.map(({ text }) => text.length)));
  const nameWidth = Math.max(nameWidthMin, ...steps.map(({ step }) => step.length));
  const refusal = findRefusal(steps);
  return steps.flatMap((step, at) =>
    stepLines(step, {
      nameWidth,
      width,
      columns,
      isDecisive: step.step === decisive,
      isAfter: refusal !== -1 && at > refusal,
    }),
  );
}

/** Finds the step that refused the request. `own nodes` never counts as that step, because the pool is tried after it. */
function findRefusal(steps: readonly ExplainedStep[]): number {
  return steps.findIndex(({ result, step }) => result === 'refused' && step !== 'own nodes');
}

interface StepPlace {
  readonly nameWidth: number;
  readonly width: number;
  readonly columns: number | undefined;
  readonly isDecisive: boolean;
  readonly isAfter: boolean;
}

function stepLines(
  step: ExplainedStep,
  { nameWidth, width, columns, isDecisive, isAfter }: StepPlace,
): Line[] {
  const { result, text, because } = step;
  const style = isAfter ? 'faint' : undefined;
  const lead: Part[] = ['  ', { text: signs[result], style: style ?? styles[result] }];
  const name = ` ${step.step.padEnd(nameWidth)} `;
  const stepIndent = signWidth + name.length;
  const event = because && eventText(because);
  const mark: Part[] = isDecisive ? ['  ', { text: marker, style: 'strong' }] : [];
  const paint = (plain: string): Part => ({ text: plain, style });
  const tailLength = (event === undefined ? 0 : 2 + event.length) + (isDecisive ? 2 + marker.length : 0);
  const hasTail = tailLength > 0;
  const body = hasTail ? text.padEnd(width) : text;
  if (columns === undefined || stepIndent + body.length + tailLength <= columns)
    return [[...lead, paint(`${name}${body}${event === undefined ? '' : `  ${event}`}`), ...mark]];
  const [first = '', ...rest] = breakText(text, columns - stepIndent);
  const below =
    event === undefined ? [] : breakText(event, columns - stepIndent - (isDecisive ? 2 + marker.length : 0));
  const lines: Part[][] = [
    [...lead, paint(`${name}${first}`)],
    ...[...rest, ...below].map((part) => [paint(`${' '.repeat(stepIndent)}${part}`)]),
  ];
  lines.at(-1)?.push(...mark);
  return lines;
}

function eventText({ type, position, by, why }: NonNullable<ExplainedStep['because']>): string {
  return [type, position, by, why && `"${why}"`].filter(Boolean).join(' ');
}

/** Lists commands that would get the request served. On a narrow terminal, each gets its own line for easy copying. */
function wouldTexts(would: readonly string[], columns: number | undefined): string[] {
  if (would.length === 0) return [];
  const line = `be served with: ${would.join('  · or: ')}`;
  if (columns === undefined || indent + line.length <= columns) return [line];
  return ['be served with one of:', ...would.map((command) => `  ${command}`)];
}

function diffTexts({ from, to, steps, events }: NonNullable<Explanation['diff']>): string[] {
  if (steps.length === 0) return [`nothing differs between ${from} and ${to}`];
  return [
    `between ${from} and ${to} differ: ${steps.join(', ')}`,
    ...events.map(({ type, position, by = '' }) => `${type} ${position} ${by}`),
  ];
}

/** Wraps a text with a hanging indent after `lead`. Commands are not wrapped, so that they can be copied. */
function wrapText(lead: string, text: string, columns: number | undefined): Line[] {
  const isCommand = text.trimStart().startsWith('headgate ');
  const parts = columns === undefined || isCommand ? [text] : breakText(text, columns - lead.length);
  return parts.map((part, at) => `${at === 0 ? lead : ' '.repeat(lead.length)}${part}`);
}

/** Breaks a text at spaces into lines. A word that is too wide gets a line of its own. */
function breakText(text: string, widthMax: number): string[] {
  const lines: string[] = [];
  for (const word of text.split(' ')) {
    const last = lines.at(-1);
    if (last !== undefined && last.length + 1 + word.length <= widthMax)
      lines[lines.length - 1] = `${last} ${word}`;
    else lines.push(word);
  }
  return lines;
}
