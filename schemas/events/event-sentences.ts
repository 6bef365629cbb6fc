/**
 * What an event did, in the words of its definition. The command line and the console have no other words for events. Total:
 * types that this build does not know make a sentence too.
 */
import { type EventWords, fieldsOf, textOf } from './event-definition.ts';
import { eventDefinitions, isEventType } from './event-definitions.ts';

/** Kinds of things of which an event can be. */
const kinds = ['organisation', 'tier', 'model', 'key', 'stack', 'node'] as const;
export type EventSubjectKind = (typeof kinds)[number];

/** Of what kind the `id` in the data of an event is, by the first word of its type; of tokens there is none. */
export function kindOfId(type: string): EventSubjectKind | undefined {
  return kinds.find((kind) => type.startsWith(`${kind}.`) && !type.startsWith('node.token_'));
}

export interface EventSentence {
  readonly verb: string;
  readonly subject: string;
  readonly rest: string;
}

export function eventSentence(type: string, data: unknown): EventSentence {
  const fields = fieldsOf(data);
  const [verb, subject, rest = '']: EventWords = isEventType(type)
    ? eventDefinitions[type].sentence(fields)
    : [type.replace(/[._]/g, ' '), textOf(fields, 'id')];
  return { verb, subject, rest };
}

/** As one text. */
export function eventText(type: string, data: unknown): string {
  const { verb, subject, rest } = eventSentence(type, data);
  // Names of keys are free text.
  const isQuoted = /^key\.(?:created|forgotten)$/.test(type) && subject.includes(' ');
  const named = isQuoted ? `"${subject}"` : subject;
  return [verb, named, rest].filter((part) => part !== '').join(' ');
}
