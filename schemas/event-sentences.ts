/**
 * What an event did, in words that follow its author: `operator` `installed` **echo-small** `on stk-amber-otter-9k2f`. The command
 * line and the console have no other words for events. Total: data of other versions, and of types that this build does not
 * know, make a shorter sentence.
 */
import type { EventTypeName } from './events.ts';
import { grouped } from './grouped.ts';

/** The subject is what people look for; the parts before and after it may be empty. */
export interface EventSentence {
  readonly verb: string;
  readonly subject: string;
  readonly rest: string;
}

type Fields = Readonly<Record<string, unknown>>;
type Words = readonly [verb: string, subject: string, rest?: string];

/** The text of a field, or nothing. */
const text = (fields: Fields, name: string): string => {
  const value = fields[name];
  return typeof value === 'string' || typeof value === 'number' ? String(value) : '';
};
/** A preposition with the text of a field, or nothing. */
const to = (fields: Fields, word: string, name: string): string => {
  const value = text(fields, name);
  return value === '' ? '' : `${word} ${value}`;
};

function placeOf({ place }: Fields): string {
  const { kind, id } = fieldsOf(place);
  if (kind === 'pool') return 'in the pool';
  if (typeof id !== 'string') return '';
  return kind === 'stack' ? `in ${id}` : `of ${id}`;
}

function planOf(fields: Fields): string {
  if (fields['tier'] === null) return 'without a plan';
  return to(fields, 'on the plan', 'tier');
}

function healthOf(fields: Fields): Words {
  const { up, reason } = fields;
  const why = typeof reason === 'string' ? `: ${reason}` : '';
  return ['took', text(fields, 'id'), up === true ? 'into service' : `out of service${why}`];
}

function signersOf({ signers }: Fields): Words {
  const count = Array.isArray(signers) ? signers.length : 0;
  return ['set the signers of', 'the log', count === 0 ? '' : `to ${count === 1 ? 'one' : count}`];
}

function tokensOf(fields: Fields): string {
  const { tokens } = fields;
  if (typeof tokens !== 'number') return '';
  return `by ${tokens > 0 ? '+' : ''}${grouped(tokens)} tokens`;
}

/** A row for each type: what is forgotten does not compile. */
const sentences: Readonly<Record<EventTypeName, (fields: Fields) => Words>> = {
  'log.created': (of) => ['created the log', text(of, 'log')],
  'log.signers_set': signersOf,
  'tier.set': (of) => ['set the tier', text(of, 'id')],
  'tier.removed': (of) => ['removed the tier', text(of, 'id')],
  'anonymous.set': () => ['set the limits of', 'visitors'],
  'bounds.set': () => ['set the bounds of', 'members'],
  'model.set': (of) => ['put', text(of, 'id'), 'into the catalog'],
  'model.removed': (of) => ['removed', text(of, 'id'), 'from the catalog'],
  'organisation.set': (of) => ['set the organisation', text(of, 'id'), planOf(of)],
  'organisation.suspended': (of) => [
    of['suspended'] === false ? 'resumed the organisation' : 'suspended the organisation',
    text(of, 'id'),
  ],
  'organisation.removed': (of) => ['removed the organisation', text(of, 'id')],
  'member.set': (of) => [
    'made',
    text(of, 'person'),
    [text(of, 'role'), to(of, 'of', 'organisation')].filter((part) => part !== '').join(' '),
  ],
  'member.removed': (of) => ['removed', text(of, 'person'), to(of, 'from', 'organisation')],
  'key.created': (of) => [
    'created the key',
    text(of, 'name') || text(of, 'id'),
    to(of, 'of', 'organisation'),
  ],
  'key.revoked': (of) => ['revoked the key', text(of, 'id')],
  'stack.created': (of) => ['created the stack', text(of, 'id'), to(of, 'of', 'organisation')],
  'stack.surface_set': (of) => ['switched the stack', text(of, 'id'), to(of, 'to', 'surface')],
  'stack.removed': (of) => ['removed the stack', text(of, 'id')],
  'stack.model_installed': (of) => ['installed', text(of, 'model'), to(of, 'on', 'stack')],
  'stack.model_uninstalled': (of) => ['uninstalled', text(of, 'model'), to(of, 'from', 'stack')],
  'pool.model_installed': (of) => ['installed', text(of, 'model'), 'on the pool'],
  'pool.model_uninstalled': (of) => ['uninstalled', text(of, 'model'), 'from the pool'],
  'node.registered': (of) => ['registered the node', text(of, 'id'), placeOf(of)],
  'node.drained': (of) => ['drained the node', text(of, 'id')],
  'node.undrained': (of) => ['undrained the node', text(of, 'id')],
  'node.removed': (of) => ['removed the node', text(of, 'id')],
  'node.token_created': (of) => ['created a token of the node', text(of, 'node')],
  'node.token_revoked': (of) => ['revoked the node token', text(of, 'id')],
  'node.joined': (of) => ['took over the node', text(of, 'id')],
  'node.health_changed': healthOf,
  'usage.adjusted': (of) => ['adjusted the usage of', text(of, 'organisation'), tokensOf(of)],
  'session.ended': (of) => ['ended', of['kind'] === 'link' ? 'a sign-in link' : endedOf(of)],
  checkpoint: () => ['wrote', 'a checkpoint'],
  no_op: () => ['wrote', 'nothing'],
};

/** All that this build knows, in the order of the schemas. */
export const eventTypeNames: readonly string[] = Object.keys(sentences);

function endedOf({ kind, subject }: Fields): string {
  return kind === 'person' ? `all sessions of ${String(subject)}` : 'a session';
}

export function eventSentence(type: string, data: unknown): EventSentence {
  const fields = fieldsOf(data);
  const [verb, subject, rest = ''] = Object.hasOwn(sentences, type)
    ? sentences[type as EventTypeName](fields)
    : [type.replace(/[._]/g, ' '), text(fields, 'id')];
  return { verb, subject, rest };
}

/** As one text. */
export function eventText(type: string, data: unknown): string {
  const { verb, subject, rest } = eventSentence(type, data);
  // Names of keys are free text.
  const named = type === 'key.created' && subject.includes(' ') ? `"${subject}"` : subject;
  return [verb, named, rest].filter((part) => part !== '').join(' ');
}

function fieldsOf(data: unknown): Fields {
  return (typeof data === 'object' && data !== null ? data : {}) as Fields;
}
