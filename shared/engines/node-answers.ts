/** Interprets a node's responses other than completions. They are untrusted, so none of their text is passed on. */
import type { Dialect } from '../../schemas/names.ts';
import { member } from '../runtime/member.ts';
import type { Inability, NodeBody } from './dialect.ts';
import { dialects } from './dialects.ts';
import { rejections } from './rejections.ts';

export interface ContextError {
  /** Size of the model's context window in tokens, if the node reports it. */
  readonly windowTokens?: number;
}

export interface TokenCountRequest {
  readonly path: string;
  readonly body: NodeBody;
}

export interface EngineModel {
  readonly name: string;
  readonly windowTokens?: number;
  /** Time when the model was last replaced, in seconds since 1970. Only for engines that can replace models. */
  readonly modified?: number;
}

/** Path of the list of a node's models, which is the same for all engines. */
export const modelsPath = '/v1/models';

/** Detects an error that means that the request has too many tokens. `error` is the node's response body or stream event. */
export function findContextError(dialect: Dialect, error: unknown): ContextError | undefined {
  const text = errorText(error);
  for (const pattern of dialects[dialect].contextErrors) {
    const found = pattern.exec(text);
    if (found === null) continue;
    const windowTokens = positive(found[1] === undefined ? undefined : Number(found[1]));
    return windowTokens === undefined ? {} : { windowTokens };
  }
  return undefined;
}

/** Detects an error that means that the model lacks a capability. `error` is the node's response body or stream event. */
export function findInability(dialect: Dialect, error: unknown): Inability | undefined {
  const text = errorText(error);
  const known = Object.entries(dialects[dialect].inabilities) as [Inability, RegExp][];
  return known.find(([, pattern]) => pattern.test(text))?.[0];
}

export interface Rejection {
  /** Reason in words that this project chose, or undefined if the engine's text is not known. */
  readonly reason?: string;
}

/** Error statuses that the request itself causes. Any server on the way to the model may return them. */
const rejecting: readonly unknown[] = [400, 413, 422, 501];
/** Statuses that mean a rejection only together with a known error text: 500, often used for bad requests, or no status. */
const rejectingWhereKnown: readonly unknown[] = [500, undefined, null];
/** Error types that count as status 400 if the error has no status. */
const rejectingTypes = /^(bad ?request|invalid_request)/i;

/** Returns a rejection if the engine would never accept this request. Without `status`, the error's own code is used. */
export function findRejection(status: number | undefined, error: unknown): Rejection | undefined {
  const its = status ?? member(member(error, 'error') ?? error, 'code');
  const text = errorText(error);
  const isSure = rejecting.includes(its) || (typeof its !== 'number' && rejectingTypes.test(text));
  if (!isSure && !rejectingWhereKnown.includes(its)) return undefined;
  const known = rejections.find((one) => one.text.test(text));
  if (known !== undefined) return { reason: known.reason };
  if (its === 413) return { reason: 'the request is larger than its server accepts' };
  return isSure ? {} : undefined;
}

/** Builds a request that counts the prompt's tokens, or returns undefined if the engine cannot count. */
export function tokenCountRequest(dialect: Dialect, body: NodeBody): TokenCountRequest | undefined {
  const counter = dialects[dialect].tokenCounter;
  if (counter === undefined) return undefined;
  const asked: Record<string, unknown> = {};
  for (const field of counter.fields) {
    if (body[field] !== undefined) asked[field] = body[field];
  }
  return { path: counter.path, body: asked };
}

/** Reads the number of tokens from the node's response. Returns undefined if the response does not contain one. */
export function readTokenCount(dialect: Dialect, answer: unknown): number | undefined {
  const counter = dialects[dialect].tokenCounter;
  return counter === undefined ? undefined : positive(member(answer, counter.answer));
}

/** Lists the models that a node has loaded, with the engine's names for them. Invalid entries are skipped. */
export function servedModels(dialect: Dialect, answer: unknown): readonly EngineModel[] {
  const entries = member(answer, 'data');
  if (!Array.isArray(entries)) return [];
  const models: EngineModel[] = [];
  for (const entry of entries) {
    const name = member(entry, 'id');
    if (typeof name !== 'string' || name === '' || !isLoaded(entry)) continue;
    const windowTokens = positive(member(entry, 'max_model_len') ?? member(member(entry, 'meta'), 'n_ctx'));
    const modified = dialects[dialect].modelPath && positive(member(entry, 'created'));
    const model = { name, ...(windowTokens && { windowTokens }), ...(modified && { modified }) };
    models.push(model);
    // Add the name without `:latest` too, because a name without a tag means that tag.
    if (dialect === 'ollama' && name.endsWith(':latest')) {
      models.push({ ...model, name: name.slice(0, -':latest'.length) });
    }
  }
  return models;
}

/** Whether an engine's response about one model says that the model has vision. */
export function takesImages(answer: unknown): boolean {
  const capabilities = member(answer, 'capabilities');
  return Array.isArray(capabilities) && capabilities.includes('vision');
}

/** Whether the model of an entry is loaded. A server with several models also lists those that are not. */
function isLoaded(entry: unknown): boolean {
  const state = member(member(entry, 'status'), 'value');
  return state === undefined || state === 'loaded';
}

/** Text of an error. Engines put it into different fields, or return it as a plain string. */
function errorText(error: unknown): string {
  if (typeof error === 'string') return error;
  const inner = member(error, 'error');
  if (typeof inner === 'string') return inner;
  const holder = inner ?? error;
  const message = member(holder, 'message') ?? member(holder, 'detail');
  const type = member(holder, 'type');
  return `${typeof type === 'string' ? type : ''} ${typeof message === 'string' ? message : ''}`;
}

function positive(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isSafeInteger(value) && value > 0 ? value : undefined;
}
