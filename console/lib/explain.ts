/** Parses the Explain page's question, which its URL contains, and builds links to the page. */
import type { Explanation } from '../../schemas/records/explanations.ts';
import { withQuery } from './api.ts';
import { shellWord } from './format.ts';

export type { Explanation };

/** Question in the Explain page's URL. Its parameters are named like the options of `headgate explain`. */
export interface ExplainQuery {
  readonly request?: string | undefined;
  readonly key?: string | undefined;
  readonly org?: string | undefined;
  readonly visitor?: string | undefined;
  readonly model?: string | undefined;
  readonly host?: string | undefined;
  readonly path?: string | undefined;
  readonly prompt?: string | undefined;
  readonly max?: string | undefined;
  readonly at?: string | undefined;
  readonly diff?: string | undefined;
}

const names = [
  'request',
  'key',
  'org',
  'visitor',
  'model',
  'host',
  'path',
  'prompt',
  'max',
  'at',
  'diff',
] as const;

export function parseExplainQuery(query: URLSearchParams): ExplainQuery {
  const found = names.map((name) => [name, query.get(name)?.trim() || undefined] as const);
  return Object.fromEntries(found.filter(([, value]) => value !== undefined));
}

export function explainLink(asked: ExplainQuery): string {
  return withQuery('/explain', { ...asked });
}

/** Whether the question identifies exactly one decision. */
export function isComplete({ request, key, org, visitor, model, path }: ExplainQuery): boolean {
  if (request !== undefined) return true;
  const hasSubject = key !== undefined || org !== undefined || visitor !== undefined;
  return hasSubject && (model !== undefined || path === 'models');
}

const numberOf = (text: string | undefined): number | undefined =>
  text === undefined ? undefined : Number(text);
const momentOf = (text: string | undefined): number | string | undefined =>
  text !== undefined && /^\d+$/.test(text) ? Number(text) : text;

/** Converts a question from the Explain page to the body of an API request. */
export function toQuestion(asked: ExplainQuery): object {
  const { request, key, org, visitor, model, host, path, prompt, max, at, diff } = asked;
  const moments = { at: momentOf(at), diff: momentOf(diff) };
  if (request !== undefined) return { request, ...moments };
  const subject =
    key !== undefined ? { key } : visitor !== undefined ? { visitor: true } : { organisation: org };
  const sizes = { promptTokens: numberOf(prompt), maxTokens: numberOf(max) };
  return { ...subject, model, host, path, ...sizes, ...moments };
}

export function explainCommand(asked: ExplainQuery): string {
  const { request, key, org, visitor, model, host, path, prompt, max, at, diff } = asked;
  const option = (name: string, value: string | undefined): string =>
    value === undefined ? '' : ` --${name} ${shellWord(value)}`;
  const moments = `${option('at', at)}${option('diff', diff)}`;
  if (request !== undefined) return `headgate explain --request ${shellWord(request)}${moments}`;
  const subject =
    key !== undefined ? option('key', key) : visitor !== undefined ? ' --visitor' : option('org', org);
  if (!isComplete(asked)) return 'headgate explain --request REQUEST';
  const sizes = `${option('prompt-tokens', prompt)}${option('max-tokens', max)}`;
  const details = `${option('model', model)}${option('host', host)}${option('path', path)}${sizes}`;
  return `headgate explain${subject}${details}${moments}`;
}
