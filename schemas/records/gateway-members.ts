/**
 * Members that a gateway reports about itself, one row each. The report's schema, the admin API's answers, the columns of
 * `headgate gateway` and the console's pages derive from these rows. The console imports this file, so it describes values as
 * plain data, which `status.ts` turns into schemas.
 */

/** Display of a member. null means that the member is for programs such as `doctor` and stays in the report. */
interface MemberDisplay<Value> {
  /** Column heading on the command line, which shows the raw value. */
  readonly heading: string;
  /** Label in the console. Absent if the value is part of another cell. */
  readonly term?: string;
  /** Formats the value for the console. */
  text?(value: Value): string;
  /** Judges whether the value is a good or a bad sign. */
  tone?(value: Value): 'good' | 'warn' | 'bad' | undefined;
}

type OptionalDisplay<Value> = MemberDisplay<Value> | null;

function text<S extends OptionalDisplay<string>>(charactersMax: number, shown: S) {
  return { kind: 'text', charactersMax, shown } as const;
}
function texts<S extends OptionalDisplay<readonly string[]>>(
  countMax: number,
  charactersMax: number,
  shown: S,
) {
  return { kind: 'texts', countMax, charactersMax, shown } as const;
}
/** Member that is present only if true. */
function yes<S extends OptionalDisplay<true>>(shown: S) {
  return { kind: 'yes', shown } as const;
}
function choice<
  const Values extends readonly [string, ...string[]],
  S extends OptionalDisplay<Values[number]>,
>(values: Values, shown: S) {
  return { kind: 'choice', values, shown } as const;
}

/** Age of the last freshness proof from which a fencing gateway does not accept keys, in seconds. */
export const fencedSeconds = 45;

export const gatewayMembers = {
  /** Behaviour without a freshness proof. */
  stalePolicy: choice(['fence', 'serve'], {
    heading: 'WHEN-STALE',
    term: 'When stale',
    text: (policy) => `${policy === 'serve' ? 'keeps serving' : 'refuses requests'} after ${fencedSeconds} s`,
  }),
  /** Reason why the gateway has stopped following the log. */
  halted: text(500, { heading: 'HALTED', tone: () => 'bad' }),
  /** Newest non-critical event that the gateway's build could not read: its commit, its type and the reason. */
  passedOver: text(300, { heading: 'PASSED-OVER', term: 'Skipped event', tone: () => 'warn' }),
  /** Open change that has reached the gateway. */
  change: text(64, { heading: 'CHANGE', term: 'Change' }),
  /** Address of the gateway's metrics listener, which also serves its stored decisions. */
  metrics: text(300, null),
  /** Expiry of the listeners' TLS certificate. Absent without TLS. */
  certificateEnds: text(40, null),
  /** Nodes that reported more tokens than a request can use within the last hour. */
  overstating: texts(50, 64, null),
  /** Nodes that have not answered any of the gateway's requests for a while. */
  unanswering: texts(50, 64, null),
  /** Unusual, ambiguous or unknown answer formats in the last hour, with node and model. */
  oddForms: texts(50, 500, null),
  /** Whether the gateway lacked a file descriptor for a node connection within the last ten seconds. */
  outOfFiles: yes(null),
  /** Whether the gateway publishes traffic counts. */
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
/** Every member, so that a report cannot leave one out. Undefined, false and empty values are not reported. */
export type GatewayMembers = {
  readonly [Name in GatewayMember]: MemberValue<Name> | false | undefined;
};
type Reported<Name extends GatewayMember> = { readonly [Each in Name]?: MemberValue<Each> };

export const gatewayMemberNames = Object.keys(gatewayMembers) as GatewayMember[];
export const shownMembers = gatewayMemberNames.filter(
  (name): name is ShownMember => gatewayMembers[name].shown !== null,
);

/** Returns the named members that have something to report. */
export function reportedMembers<Name extends GatewayMember>(
  names: readonly Name[],
  members: { readonly [Each in Name]?: MemberValue<Each> | false | undefined },
): Reported<Name> {
  const isThere = (value: unknown): boolean =>
    value !== undefined && value !== false && !(Array.isArray(value) && value.length === 0);
  const there = names.flatMap((name) => (isThere(members[name]) ? [[name, members[name]] as const] : []));
  return Object.fromEntries(there) as Reported<Name>;
}

/** Displayed member, independent of its value type. */
export interface ShownColumn extends Omit<MemberDisplay<unknown>, 'text' | 'tone'> {
  readonly member: ShownMember;
  readonly isLong: boolean;
  text(value: unknown): string;
  tone(value: unknown): ReturnType<NonNullable<MemberDisplay<unknown>['tone']>>;
}

/** Displayed members in the order of their rows. */
export const shownColumns: readonly ShownColumn[] = shownMembers.map((member) => {
  const { kind, shown } = gatewayMembers[member];
  const { heading, term, text: textOf = String, tone } = shown as MemberDisplay<unknown>;
  return {
    ...{ member, heading, isLong: kind === 'text' },
    ...(term !== undefined && { term }),
    text: textOf,
    tone: (value) => tone?.(value),
  };
});
