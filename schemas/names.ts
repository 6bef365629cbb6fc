/**
 * The vocabulary of names that cross a process border: their shapes and length limits.
 * Every id is parsed by one of these at the edge; inside, no string is examined again.
 */
import { z } from 'zod';
import { affinities, dialects, expiryChoices, keyStates, nodeStates, roles, surfaces } from './choices.ts';

/** An opaque internal id: organisation, person, key, node, token. At most 64 characters. */
export const idSchema = z
  .string()
  .regex(/^[a-z0-9-]+$/, 'must be lowercase letters, digits and hyphens')
  .max(64);

/** A tier's id is the name that refusals show to callers, so capitals and spaces are allowed. */
export const tierIdSchema = z
  .string()
  .regex(/^[A-Za-z0-9][A-Za-z0-9 ._-]*$/, 'must be letters, digits, spaces, dots, hyphens')
  .max(64);

export const modelIdSchema = z
  .string()
  .regex(/^[A-Za-z0-9._:/-]+$/, 'must be letters, digits and . _ : / -')
  .max(200);

/**
 * Free text for people, as events have it. Control characters would let one line pretend to be two; half surrogates have no
 * UTF-8.
 */
export const storedNameSchema = z
  .string()
  .min(1)
  .max(200)
  .regex(/^[^\p{Cc}\p{Cs}]*$/u, 'must not contain control characters');

/** Scripts whose letters are joined, or kept apart, by U+200D and U+200C. */
const joined = ['Arabic', 'Bengali', 'Devanagari', 'Gujarati', 'Gurmukhi', 'Kannada', 'Khmer', 'Malayalam']
  .concat(['Mongolian', 'Oriya', 'Sinhala', 'Syriac', 'Tamil', 'Telugu'])
  .map((script) => `\\p{Script=${script}}`)
  .join('');
/** Line separators and what is not seen: directions, spaces of no width, joiners, fillers, tags. */
const hidden = /[\u2028\u2029\p{Default_Ignorable_Code_Point}]/u;
/** A joiner between letters of such scripts or parts of an emoji, and the style of an emoji. */
const needed = new RegExp(
  `(?<=[${joined}])[\\u200c\\u200d](?=[${joined}])|(?<=[\\p{Emoji}\\ufe0f])\\u200d(?=\\p{Emoji})|(?<=\\p{Emoji})[\\ufe0e\\ufe0f]`,
  'gu',
);

/** Whether two names may look the same, or a name changes the order of what stands around it. */
export function hasHidden(name: string): boolean {
  return hidden.test(name.replace(needed, ''));
}

export const hiddenText = 'must not contain invisible characters or marks of text direction';

/** The same as a person gives it. */
export const nameSchema = storedNameSchema.refine((name) => !hasHidden(name), hiddenText);

/** `stk-<word>-<word>-<suffix>`, the first DNS label of the stack's host (Resources, Stack). */
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

/** A calendar day, `YYYY-MM-DD`, in UTC. */
export const daySchema = z.iso.date();
/** A moment, RFC 3339 in UTC. */
export const momentSchema = z.iso.datetime();

/** Base address of an inference server, as events contain it. Credentials in it are refused, because they would enter the log. */
export const recordedNodeUrlSchema = z
  .string()
  .max(500)
  .refine((text) => {
    const url = URL.canParse(text) ? new URL(text) : undefined;
    return url !== undefined && /^https?:$/.test(url.protocol) && !url.username && !url.password;
  }, 'must be an http or https URL without credentials');

/** Base address of an inference server. Paths are appended to it, so it has no query and no fragment. */
export const nodeUrlSchema = recordedNodeUrlSchema.refine(
  (text) => !/[?#]/.test(text),
  'must be a URL without a query and a fragment',
);

/** Names of node credentials are parts of environment variable names. */
export const credentialNameSchema = z
  .string()
  .regex(/^[A-Z0-9_]+$/i, 'must be letters, digits and underscores')
  .max(64);

/** Where a node stands: the pool, a stack, or an organisation. */
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
/** An id of one kind: not assignable to an id of another kind, while plain parsed text is assignable to all of them. */
type IdOf<Kind extends string> = string & { readonly [idKind]?: Kind };
export type OrganisationId = IdOf<'organisation'>;
export type KeyId = IdOf<'key'>;
export type StackId = IdOf<'stack'>;
export type NodeId = IdOf<'node'>;

/** A place as one text, as rows and look-ups have it. */
export type PlaceKey = 'pool' | `stack:${string}` | `organisation:${string}`;

export function placeKey(place: Place): PlaceKey {
  return place.kind === 'pool' ? 'pool' : `${place.kind}:${place.id}`;
}
