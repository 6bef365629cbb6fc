/** What the data of an event names, so that the sentence about it leads to each of these things. */
import { fieldsOf } from '../../schemas/events/event-definition.ts';
import { type EventSubjectKind, kindOfId } from '../../schemas/events/event-sentences.ts';

/** A name of something that has a page. */
export interface NamedThing {
  readonly kind: EventSubjectKind | 'member';
  readonly id: string;
  /** The organisation: of a member always, of a key where it is known. */
  readonly within?: string | undefined;
  /** What people call it, where that is not the id. */
  readonly name?: string;
}

/** Fields whose name is the kind of what they name. */
const kinds = ['organisation', 'stack', 'model', 'node', 'tier'] as const;

export function thingsIn(type: string, data: unknown): NamedThing[] {
  const fields = fieldsOf(data);
  const textOf = (name: string): string | undefined =>
    typeof fields[name] === 'string' ? fields[name] : undefined;
  const [id, name, person, within] = ['id', 'name', 'person', 'organisation'].map(textOf);
  const kind = kindOfId(type);
  const things: NamedThing[] = kinds.flatMap((one) => {
    const value = textOf(one);
    return value === undefined ? [] : [{ kind: one, id: value }];
  });
  if (person !== undefined) things.push({ kind: 'member', id: person, within });
  if (kind !== undefined && id !== undefined)
    things.push({ kind, id, ...(kind === 'key' && { within, ...(name !== undefined && { name }) }) });
  const place = fieldsOf(fields['place']);
  if ((place['kind'] === 'stack' || place['kind'] === 'organisation') && typeof place['id'] === 'string')
    things.push({ kind: place['kind'], id: place['id'] });
  return things;
}

/** The text, cut at the ids of things where they are words of it. */
export function cutAt(text: string, things: readonly NamedThing[]): readonly (string | NamedThing)[] {
  const thingOf = new Map(things.map((thing) => [thing.id, thing]));
  // With a capture, the pieces between the words are kept.
  return text
    .split(/(\s+)/)
    .filter((piece) => piece !== '')
    .map((piece) => thingOf.get(piece) ?? piece);
}
