/** Numbers, times and words for people. */

/** Made when it is first needed: a browser takes many milliseconds to begin with formats, and most pages need none. */
let formats:
  | Readonly<Record<'dates' | 'calendarDays' | 'shortDays' | 'moments', Intl.DateTimeFormat>>
  | undefined;

function formatsOf() {
  const onDay = { day: 'numeric', month: 'short' } as const;
  const atTime = { hour: '2-digit', minute: '2-digit', second: '2-digit' } as const;
  formats ??= {
    dates: new Intl.DateTimeFormat('en-GB', { ...onDay, year: 'numeric' }),
    calendarDays: new Intl.DateTimeFormat('en-GB', { ...onDay, year: 'numeric', timeZone: 'UTC' }),
    shortDays: new Intl.DateTimeFormat('en-GB', { ...onDay, timeZone: 'UTC' }),
    moments: new Intl.DateTimeFormat('en-GB', { ...onDay, ...atTime }),
  };
  return formats;
}

/** `18,240`; at most three decimals. */
export function count(value: number): string {
  const [whole = '', decimals] = String(Math.round(value * 1000) / 1000).split('.');
  const grouped = whole.replace(/\B(?=(?:\d{3})+$)/g, ',');
  return decimals === undefined ? grouped : `${grouped}.${decimals}`;
}

/** Of an instant the day here; a day of the calendar (`2026-11-23`) is the same everywhere. */
export function day(text: string | null | undefined): string {
  if (!text) return '–';
  const { dates, calendarDays } = formatsOf();
  return (text.length === '2026-11-23'.length ? calendarDays : dates).format(new Date(text));
}

/** `23 Nov`, of the seconds at which a day of the calendar begins. */
export function shortDay(seconds: number): string {
  return formatsOf().shortDays.format(new Date(seconds * 1000));
}

export function moment(text: string | null | undefined): string {
  return text ? formatsOf().moments.format(new Date(text)) : '–';
}

/** `1.2 s`, `4 min`, `3 h`, `2 days`. */
export function seconds(value: number): string {
  if (value < 10) return `${value.toFixed(1)} s`;
  if (value < 90) return `${Math.round(value)} s`;
  if (value < 5400) return `${Math.round(value / 60)} min`;
  if (value < 172_800) return `${Math.round(value / 3600)} h`;
  return `${Math.round(value / 86_400)} days`;
}

export function ago(text: string, nowMs = Date.now()): string {
  return `${seconds(Math.max(0, (nowMs - Date.parse(text)) / 1000))} ago`;
}

export function plural(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}

/** The first names, and how many more there are. */
export function nameSome(names: readonly string[]): string {
  return names.length <= 3
    ? names.join(', ')
    : `${names.slice(0, 3).join(', ')} and ${count(names.length - 3)} more`;
}

/** A word as a shell reads it. */
export function shellWord(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/** `key.created` as `created the key`; where the event has a result, with it. */
export function verbOf(type: string, data: unknown): string {
  const fields = fieldsOf(data);
  if (type === 'node.health_changed')
    return fields['up'] === true ? 'took into service the node' : 'took out of service the node';
  if (type === 'organisation.suspended')
    return fields['suspended'] === false ? 'resumed the organisation' : 'suspended the organisation';
  return verbs[type] ?? type.replace(/[._]/g, ' ');
}

const verbs: Readonly<Record<string, string>> = {
  'log.created': 'created the log',
  'log.signers_set': 'changed the signers of the log',
  'tier.set': 'set the tier',
  'tier.removed': 'removed the tier',
  'anonymous.set': 'set the limits of visitors',
  'bounds.set': 'set the bounds of members',
  'model.set': 'put into the catalog the model',
  'model.removed': 'removed from the catalog the model',
  'organisation.set': 'set the organisation',
  'organisation.removed': 'removed the organisation',
  'member.set': 'gave a role to',
  'member.removed': 'removed the member',
  'key.created': 'created the key',
  'key.revoked': 'revoked the key',
  'stack.created': 'created the stack',
  'stack.surface_set': 'switched the surface of',
  'stack.removed': 'removed the stack',
  'stack.model_installed': 'installed a model on',
  'stack.model_uninstalled': 'uninstalled a model from',
  'pool.model_installed': 'installed on the pool the model',
  'pool.model_uninstalled': 'uninstalled from the pool the model',
  'node.registered': 'registered the node',
  'node.drained': 'drained the node',
  'node.undrained': 'undrained the node',
  'node.removed': 'removed the node',
  'node.token_created': 'created a token of the node',
  'node.token_revoked': 'revoked the node token',
  'node.joined': 'took over the node',
  'usage.adjusted': 'adjusted the usage of',
  'session.ended': 'ended',
  checkpoint: 'wrote a checkpoint',
  no_op: 'wrote nothing',
};

/** What an event is about, by the first of its fields that names something. */
export function subjectOf(type: string, data: unknown): string {
  const fields = fieldsOf(data);
  if (type === 'session.ended')
    return fields['kind'] === 'link' ? 'a sign-in link' : `a ${String(fields['kind'])}`;
  const order = type.startsWith('member.')
    ? ['person']
    : type.startsWith('key.')
      ? ['name', 'id']
      : type === 'node.token_created'
        ? ['node']
        : ['id', 'stack', 'model', 'node', 'organisation', 'log'];
  for (const field of order) if (typeof fields[field] === 'string') return fields[field];
  return '';
}

function fieldsOf(data: unknown): Readonly<Record<string, unknown>> {
  return (typeof data === 'object' && data !== null ? data : {}) as Readonly<Record<string, unknown>>;
}
