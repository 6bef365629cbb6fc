/**
 * What a gateway reports of itself in addition to its place in the log, one row for each member. The schema of a report, the
 * answer of the admin API, the columns of `headgate gateway`, and the list and page of the console derive from the rows. Pages
 * import this file, so it has what a value may be as data, and `status.ts` makes schemas of that.
 */

/** How a member is shown; null: it is for other programs, such as `doctor`, and stays in the report. */
interface Shown<Value> {
  /** Of the column on the command line, which has the value as it is. */
  readonly heading: string;
  /** In the console; absent: it is part of another cell. */
  readonly term?: string;
  /** In words, for the console. */
  text?(value: Value): string;
  /** Where the value is a good or a bad sign. */
  tone?(value: Value): 'good' | 'warn' | 'bad' | undefined;
}

type HowShown<Value> = Shown<Value> | null;

function text<S extends HowShown<string>>(charactersMax: number, shown: S) {
  return { kind: 'text', charactersMax, shown } as const;
}
function texts<S extends HowShown<readonly string[]>>(countMax: number, charactersMax: number, shown: S) {
  return { kind: 'texts', countMax, charactersMax, shown } as const;
}
/** There only where it is so. */
function yes<S extends HowShown<true>>(shown: S) {
  return { kind: 'yes', shown } as const;
}
function choice<const Values extends readonly [string, ...string[]], S extends HowShown<Values[number]>>(
  values: Values,
  shown: S,
) {
  return { kind: 'choice', values, shown } as const;
}

/** From so old a proof on a gateway that fences accepts no key, seconds. */
export const fencedSeconds = 45;

export const gatewayMembers = {
  /** What it does without a proof of freshness. */
  stalePolicy: choice(['fence', 'serve'], {
    heading: 'WHEN-STALE',
    term: 'Without proof',
    text: (policy) => `${policy === 'serve' ? 'serves on' : 'accepts no key'} after ${fencedSeconds} s`,
  }),
  /** Why it does not follow the log now. */
  halted: text(500, { heading: 'HALTED', tone: () => 'bad' }),
  /** The newest event that its build could not read and may do without: its commit, its type and why. */
  passedOver: text(300, { heading: 'PASSED-OVER', term: 'Passed over', tone: () => 'warn' }),
  /** The open change that has reached it. */
  change: text(64, { heading: 'CHANGE', term: 'Change' }),
  /** Where it keeps its decisions: address of its metrics listener, where they can be asked for. */
  metrics: text(300, null),
  /** With TLS: when the certificate of its listeners ends. */
  certificateEnds: text(40, null),
  /** Nodes that reported more tokens than a request can use, within the last hour. */
  overstating: texts(50, 64, null),
  /** Nodes that have not answered any of the gateway's requests for a while. */
  unanswering: texts(50, 64, null),
  /** Node, model and form of answers of the last hour that were unusual, ambiguous or unknown. */
  oddForms: texts(50, 500, null),
  /** It had no file descriptor left for a connection to a node, within the last ten seconds. */
  outOfFiles: yes(null),
  /** It publishes what it counts of its requests. */
  countsTraffic: yes(null),
} as const;

type Rows = typeof gatewayMembers;
export type GatewayMember = keyof Rows;
export type GatewayMemberRow = Rows[GatewayMember];
export type ShownMember = {
  [Name in GatewayMember]: Rows[Name]['shown'] extends null ? never : Name;
}[GatewayMember];

export type MemberValue<Name extends GatewayMember> = Rows[Name] extends {
  readonly values: readonly (infer Value)[];
}
  ? Value
  : { readonly text: string; readonly texts: string[]; readonly yes: true }[Exclude<
      Rows[Name]['kind'],
      'choice'
    >];
/** Every member, so that what makes a report leaves none out; undefined, false or empty: there is nothing to report. */
export type GatewayMembers = {
  readonly [Name in GatewayMember]: MemberValue<Name> | false | undefined;
};
type Reported<Name extends GatewayMember> = { readonly [Each in Name]?: MemberValue<Each> };

export const gatewayMemberNames = Object.keys(gatewayMembers) as GatewayMember[];
export const shownMembers = gatewayMemberNames.filter(
  (name): name is ShownMember => gatewayMembers[name].shown !== null,
);

/** Those of the names that there is something to report of. */
export function reportedMembers<Name extends GatewayMember>(
  names: readonly Name[],
  members: { readonly [Each in Name]?: MemberValue<Each> | false | undefined },
): Reported<Name> {
  const isThere = (value: unknown): boolean =>
    value !== undefined && value !== false && !(Array.isArray(value) && value.length === 0);
  const there = names.flatMap((name) => (isThere(members[name]) ? [[name, members[name]] as const] : []));
  return Object.fromEntries(there) as Reported<Name>;
}

/** A member as it is shown, whatever its value. */
export interface ShownColumn extends Omit<Shown<unknown>, 'text' | 'tone'> {
  readonly member: ShownMember;
  readonly isLong: boolean;
  text(value: unknown): string;
  tone(value: unknown): ReturnType<NonNullable<Shown<unknown>['tone']>>;
}

/** In the order of the rows. */
export const shownColumns: readonly ShownColumn[] = shownMembers.map((member) => {
  const { kind, shown } = gatewayMembers[member];
  const { heading, term, text: textOf = String, tone } = shown as Shown<unknown>;
  return {
    ...{ member, heading, isLong: kind === 'text' },
    ...(term !== undefined && { term }),
    text: textOf,
    tone: (value) => tone?.(value),
  };
});
