/** Finds the things that are named in an event's data, so that the sentence about the event can link to each of them. */
import { toFieldTexts } from '../../schemas/events/event-definition.ts';
import { type EventSubjectKind, idKind } from '../../schemas/events/event-sentences.ts';

/** Thing that an event names and that has a page. */
export interface NamedThing {
  readonly kind: EventSubjectKind | 'member';
  readonly id: string;
  /** Organisation that the thing belongs to. Always set for members, and set for keys if it is known. */
  readonly within?: string | undefined;
  /** Name to display, if it differs from the id. */
  readonly name?: string;
}

/** Kinds of things. If a field of an event has one of these names, its value is the id of a thing of that kind. */
const kinds = ['organisation', 'stack', 'model', 'node', 'tier'] as const;

export function findNamedThings(type: string, data: unknown): NamedThing[] {
  const fields = toFieldTexts(data);
  const textOf = (name: string): string | undefined =>
    typeof fields[name] === 'string' ? fields[name] : undefined;
  const [id, name, person, within] = ['id', 'name', 'person', 'organisation'].map(textOf);
  const kind = idKind(type);
  const things: NamedThing[] = kinds.flatMap((one) => {
    const value = textOf(one);
    return value === undefined ? [] : [{ kind: one, id: value }];
  });
  if (person !== undefined) things.push({ kind: 'member', id: person, within });
  if (kind !== undefined && id !== undefined)
    things.push({ kind, id, ...(kind === 'key' && { within, ...(name !== undefined && { name }) }) });
  const place = toFieldTexts(fields['place']);
  if ((place['kind'] === 'stack' || place['kind'] === 'organisation') && typeof place['id'] === 'string')
    things.push({ kind: place['kind'], id: place['id'] });
  return things;
}

/** Splits a text at the words that are ids of the given things. */
export function splitAtThings(text: string, things: readonly NamedThing[]): readonly (string | NamedThing)[] {
  const thingOf = new Map(things.map((thing) => [thing.id, thing]));
  // The capture group makes `split` keep the spaces between the words.
  return text
    .split(/(\s+)/)
    .filter((piece) => piece !== '')
    .map((piece) => thingOf.get(piece) ?? piece);
}
