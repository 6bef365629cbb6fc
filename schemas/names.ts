/**
 * Schemas for names and ids that one process sends another. Every process parses ids with these schemas where they enter, so
 * code behind that point never checks them again. The room `schemas/` defines everything that processes exchange. It must not
 * contain behaviour of any process, because browsers load it too.
 */
import { z } from 'zod';
import { affinities, dialects, expiryChoices, keyStates, nodeStates, roles, surfaces } from './choices.ts';

/** Opaque internal id of an organisation, person, key, node or token. At most 64 characters. */
export const idSchema = z
  .string()
  .regex(/^[a-z0-9-]+$/, 'must be lowercase letters, digits and hyphens')
  .max(64);

/** Id of a tier. Refusals show it to callers, so it may contain capitals and spaces. */
export const tierIdSchema = z
  .string()
  .regex(/^[A-Za-z0-9][A-Za-z0-9 ._-]*$/, 'must be letters, digits, spaces, dots, hyphens')
  .max(64);

export const modelIdSchema = z
  .string()
  .regex(/^[A-Za-z0-9._:/-]+$/, 'must be letters, digits and . _ : / -')
  .max(200);

/**
 * Free text for people, as events contain it. It must not contain control characters, which could make one line look like
 * two, or lone surrogates, which UTF-8 cannot encode.
 */
export const storedNameSchema = z
  .string()
  .min(1)
  .max(200)
  .regex(/^[^\p{Cc}\p{Cs}]*$/u, 'must not contain control characters');

/** Scripts in which the invisible joiners U+200D and U+200C are needed, because they change how letters connect. */
const joined = ['Arabic', 'Bengali', 'Devanagari', 'Gujarati', 'Gurmukhi', 'Kannada', 'Khmer', 'Malayalam']
  .concat(['Mongolian', 'Oriya', 'Sinhala', 'Syriac', 'Tamil', 'Telugu'])
  .map((script) => `\\p{Script=${script}}`)
  .join('');
/** Line separators and invisible characters: direction marks, zero-width spaces, joiners, fillers and tags. */
const hidden = /[\u2028\u2029\p{Default_Ignorable_Code_Point}]/u;
/** Legitimate invisible characters: joiners within emoji or scripts that need them, and an emoji's style selector. */
const needed = new RegExp(
  `(?<=[${joined}])[\\u200c\\u200d](?=[${joined}])|(?<=[\\p{Emoji}\\ufe0f])\\u200d(?=\\p{Emoji})|(?<=\\p{Emoji})[\\ufe0e\\ufe0f]`,
  'gu',
);

/** Whether a name contains characters that could make it look like another name or reorder the text around it. */
export function hasHidden(name: string): boolean {
  return hidden.test(name.replace(needed, ''));
}

export const hiddenText = 'must not contain invisible characters or marks of text direction';

/** Free text as a person may enter it. Unlike stored names, it must not contain invisible characters. */
export const nameSchema = storedNameSchema.refine((name) => !hasHidden(name), hiddenText);

/** Id of a stack, and the first DNS label of the stack's host: `stk-<word>-<word>-<suffix>`. */
export const stackIdSchema = z
  .string()
  .regex(/^stk-[a-z]+-[a-z]+-[a-z0-9]+$/, 'must have the form stk-<word>-<word>-<suffix>')
  .max(63);

export const sha256HexSchema = z.string().regex(/^[0-9a-f]{64}$/, 'must be 64 hex digits');

export const surfaceSchema = z.enum(surfaces);
export const dialectSchema = z.enum(dialects);
export const roleSchema = z.enum(roles);
export const expiryChoiceSchema = z.enum(expiryChoices);
export const affinitySchema = z.enum(affinities);
export const keyStateSchema = z.enum(keyStates);
export const nodeStateSchema = z.enum(nodeStates);
export const nodeTokenStates = ['active', 'revoked'] as const;

/** Calendar day in UTC, `YYYY-MM-DD`. */
export const daySchema = z.iso.date();
/** Moment in UTC, in RFC 3339 format. */
export const momentSchema = z.iso.datetime();

/** Base URL of an inference server, as events contain it. It has no credentials, because they would enter the log. */
export const recordedNodeUrlSchema = z
  .string()
  .max(500)
  .refine((text) => {
    const url = URL.canParse(text) ? new URL(text) : undefined;
    return url !== undefined && /^https?:$/.test(url.protocol) && !url.username && !url.password;
  }, 'must be an http or https URL without credentials');

/** Base URL of an inference server. It has no query and no fragment, because paths are appended to the URL. */
export const nodeUrlSchema = recordedNodeUrlSchema.refine(
  (text) => !/[?#]/.test(text),
  'must be a URL without a query or fragment',
);

/** Name of a node credential. It becomes part of an environment variable's name. */
export const credentialNameSchema = z
  .string()
  .regex(/^[A-Z0-9_]+$/i, 'must be letters, digits and underscores')
  .max(64);

/** Place whose requests a node serves: the pool, a stack or an organisation. */
export const placeSchema = z.union([
  z.object({ kind: z.literal('pool') }),
  z.object({ kind: z.literal('stack'), id: stackIdSchema }),
  z.object({ kind: z.literal('organisation'), id: idSchema }),
]);

export type Surface = z.infer<typeof surfaceSchema>;
export type Dialect = z.infer<typeof dialectSchema>;
export type Role = z.infer<typeof roleSchema>;
export type ExpiryChoice = z.infer<typeof expiryChoiceSchema>;
export type Place = z.infer<typeof placeSchema>;

declare const idKind: unique symbol;
/** Id of one kind of object, such as a stack. The compiler refuses an id of another kind in its place, but not plain text. */
type TypedId<Kind extends string> = string & { readonly [idKind]?: Kind };
export type OrganisationId = TypedId<'organisation'>;
export type KeyId = TypedId<'key'>;
export type StackId = TypedId<'stack'>;
export type NodeId = TypedId<'node'>;

/** Place as a single text, for use in rows and as a key. */
export type PlaceKey = 'pool' | `stack:${string}` | `organisation:${string}`;

export function placeKey(place: Place): PlaceKey {
  return place.kind === 'pool' ? 'pool' : `${place.kind}:${place.id}`;
}
