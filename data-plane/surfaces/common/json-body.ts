/** Parses a request body that must be a JSON object. Throws `UnsupportedShapeError` (specification, Errors 2). */
import { Refusal } from '../../../shared/decision/refusal.ts';
import { type KeptPaths, keepTexts } from './json-source.ts';
import { type JsonText, parseStrictJson, readJsonText } from './json-text.ts';
import { shapeRefusal } from './validate.ts';

/** Parses a body as a JSON object. Keeps the original texts of the objects at `kept`. Throws `UnsupportedShapeError`. */
export function parseBody(
  raw: Buffer | JsonText,
  contentType: string | undefined,
  kept: KeptPaths,
): Record<string, unknown> {
  refuseOtherThanJson(contentType);
  const json = 'counts' in raw ? raw : readJsonText(raw);
  const value = parseStrictJson(json);
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw shapeRefusal([], 'must be a JSON object');
  }
  keepTexts(json.text, value, kept);
  return value as Record<string, unknown>;
}

/** Throws `UnsupportedShapeError` if the content type is not `application/json`. */
export function refuseOtherThanJson(contentType: string | undefined): void {
  if (isJson(contentType)) return;
  throw new Refusal('shape', 'the content type must be application/json, with no charset but utf-8');
}

/** Whether the content type is `application/json`. The only charset accepted is UTF-8, because JSON allows no other. */
function isJson(contentType: string | undefined): boolean {
  if (contentType === 'application/json') return true;
  if (contentType === undefined || contentType.length > 200) return false;
  const [type, ...parameters] = contentType.toLowerCase().split(';');
  if (type?.trim() !== 'application/json') return false;
  return parameters.every((parameter) => {
    const [name, value] = parameter.trim().split('=');
    return name !== 'charset' || value === 'utf-8' || value === '"utf-8"' || value === 'utf8';
  });
}
