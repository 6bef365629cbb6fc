/**
 * What a node returns in addition to completions: that a prompt is too long, its number of tokens, the models it serves.
 * Everything read here is untrusted: it may have any shape, and none of its text leaves this file.
 */
import type { Dialect } from '../../schemas/names.ts';
import { member } from '../runtime/member.ts';
import type { Inability, NodeBody } from './dialect.ts';
import { dialects } from './dialects.ts';
import { rejections } from './rejections.ts';

export interface ContextError {
  /** The window of the model in tokens, where the node reports it. */
  readonly windowTokens?: number;
}

export interface TokenCountRequest {
  readonly path: string;
  readonly body: NodeBody;
}

export interface EngineModel {
  readonly name: string;
  readonly windowTokens?: number;
  /** When it was last replaced, seconds since 1970, where a model can be. */
  readonly modified?: number;
}

/** The path of every dialect for the models that a node serves now. */
export const modelsPath = '/v1/models';

/** Whether an error, as parsed from the node's body or frame, means that the request has too many tokens. */
export function contextErrorOf(dialect: Dialect, error: unknown): ContextError | undefined {
  const text = errorText(error);
  for (const pattern of dialects[dialect].contextErrors) {
    const found = pattern.exec(text);
    if (found === null) continue;
    const windowTokens = positive(found[1] === undefined ? undefined : Number(found[1]));
    return windowTokens === undefined ? {} : { windowTokens };
  }
  return undefined;
}

/** The capability that the model lacks, where an error, as parsed from the node's body or frame, means that. */
export function inabilityOf(dialect: Dialect, error: unknown): Inability | undefined {
  const text = errorText(error);
  const known = Object.entries(dialects[dialect].inabilities) as [Inability, RegExp][];
  return known.find(([, pattern]) => pattern.test(text))?.[0];
}

export interface Rejection {
  /** The reason in a fixed text; undefined where the engine's text is unknown. */
  readonly reason?: string;
}

/** Statuses of errors that the request causes. Any server on the way to the model may answer with them. */
const rejecting: readonly unknown[] = [400, 413, 422, 501];
/** Statuses with which the text decides. Engines answer many bad requests with 500, and errors within a stream may have no status. */
const rejectingWhereKnown: readonly unknown[] = [500, undefined, null];
/** Beginnings of error types that mean status 400 if an error has no status. */
const rejectingTypes = /^(bad ?request|invalid_request)/i;

/**
 * Whether an error means that the engine will never accept this request. `status` is of the node's answer; an error within
 * a stream has its own.
 */
export function rejectionOf(status: number | undefined, error: unknown): Rejection | undefined {
  const its = status ?? member(member(error, 'error') ?? error, 'code');
  const text = errorText(error);
  const isSure = rejecting.includes(its) || (typeof its !== 'number' && rejectingTypes.test(text));
  if (!isSure && !rejectingWhereKnown.includes(its)) return undefined;
  const known = rejections.find((one) => one.text.test(text));
  if (known !== undefined) return { reason: known.reason };
  if (its === 413) return { reason: 'it is larger than its server accepts' };
  return isSure ? {} : undefined;
}

/** The request for the number of tokens of the prompt in `body`; undefined where the engine has none. */
export function tokenCountRequest(dialect: Dialect, body: NodeBody): TokenCountRequest | undefined {
  const counter = dialects[dialect].tokenCounter;
  if (counter === undefined) return undefined;
  const asked: Record<string, unknown> = {};
  for (const field of counter.fields) {
    if (body[field] !== undefined) asked[field] = body[field];
  }
  return { path: counter.path, body: asked };
}

/** The number of tokens in the node's response; undefined where it contains none. */
export function tokenCountOf(dialect: Dialect, answer: unknown): number | undefined {
  const counter = dialects[dialect].tokenCounter;
  return counter === undefined ? undefined : positive(member(answer, counter.answer));
}

/** The models that a node has loaded, by the names it knows them by. Invalid entries are skipped. */
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
    // A missing tag means this one.
    if (dialect === 'ollama' && name.endsWith(':latest')) {
      models.push({ ...model, name: name.slice(0, -':latest'.length) });
    }
  }
  return models;
}

/** Whether an engine's response about one model lists vision as a capability. */
export function takesImages(answer: unknown): boolean {
  const capabilities = member(answer, 'capabilities');
  return Array.isArray(capabilities) && capabilities.includes('vision');
}

/** A server of several models lists those that it has not loaded, too. */
function isLoaded(entry: unknown): boolean {
  const state = member(member(entry, 'status'), 'value');
  return state === undefined || state === 'loaded';
}

/** Engines put the text of an error in one of three fields, or return the text alone. */
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
