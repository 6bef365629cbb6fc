/** Describes any event in one sentence, based on its definition, for the command line and the console. Never throws. */
import { type EventWords, fieldText, toFieldTexts } from './event-definition.ts';
import { eventDefinitions, isEventType } from './event-definitions.ts';

const kinds = ['organisation', 'tier', 'model', 'key', 'stack', 'node'] as const;
export type EventSubjectKind = (typeof kinds)[number];

/** Returns the kind of thing that the event's `id` identifies (the first word of the type), or undefined for tokens. */
export function idKind(type: string): EventSubjectKind | undefined {
  return kinds.find((kind) => type.startsWith(`${kind}.`) && !type.startsWith('node.token_'));
}

export interface EventSentence {
  readonly verb: string;
  readonly subject: string;
  readonly rest: string;
}

export function eventSentence(type: string, data: unknown): EventSentence {
  const fields = toFieldTexts(data);
  const [verb, subject, rest = '']: EventWords = isEventType(type)
    ? eventDefinitions[type].sentence(fields)
    : [type.replace(/[._]/g, ' '), fieldText(fields, 'id')];
  return { verb, subject, rest };
}

export function eventText(type: string, data: unknown): string {
  const { verb, subject, rest } = eventSentence(type, data);
  // Key names are quoted, because they are free text.
  const isQuoted = /^key\.(?:created|forgotten)$/.test(type) && subject.includes(' ');
  const named = isQuoted ? `"${subject}"` : subject;
  return [verb, named, rest].filter((part) => part !== '').join(' ');
}
