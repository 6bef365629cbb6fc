/**
 * Members (fields) of the report that a gateway publishes about itself, one row each. The report's schema, the admin API's
 * responses, the columns of `headgate gateway` and the console's pages are derived from these rows. The console imports this
 * file, so values are described as plain data, which `status.ts` turns into schemas.
 */

/** Display of a report's member. A member whose display is null is only in the report, for programs such as `doctor`. */
interface MemberDisplay<Value> {
  /** Heading of the member's column on the command line, which shows the raw value. */
  readonly heading: string;
  /** Label of the member in the console. Absent if another cell of the page contains the value. */
  readonly term?: string;
  /** Formats the member's value for the console. */
  text?(value: Value): string;
  /** Returns whether the value is a good or a bad sign. Undefined means that it is neither. */
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
/** Defines a member that is reported only if it is true. */
function yes<S extends OptionalDisplay<true>>(shown: S) {
  return { kind: 'yes', shown } as const;
}
function choice<
  const Values extends readonly [string, ...string[]],
  S extends OptionalDisplay<Values[number]>,
>(values: Values, shown: S) {
  return { kind: 'choice', values, shown } as const;
}

/** Age of a gateway's last freshness proof, in seconds, at which the policy `fence` makes the gateway stop serving. */
export const fencedSeconds = 45;

export const gatewayMembers = {
  /** Behaviour of the gateway without a recent proof that its state is fresh: `fence` stops serving, `serve` continues. */
  stalePolicy: choice(['fence', 'serve'], {
    heading: 'WHEN-STALE',
    term: 'When stale',
    text: (policy) => `${policy === 'serve' ? 'keeps serving' : 'refuses requests'} after ${fencedSeconds} s`,
  }),
  /** Reason why the gateway has stopped following the log. */
  halted: text(500, { heading: 'HALTED', tone: () => 'bad' }),
  /** Newest event that the gateway skipped because it could not read it: its commit, its type and the reason. */
  passedOver: text(300, { heading: 'PASSED-OVER', term: 'Skipped event', tone: () => 'warn' }),
  /** Open change that has reached the gateway. */
  change: text(64, { heading: 'CHANGE', term: 'Change' }),
  /** Address of the gateway's metrics listener, at which others can also read the decisions that the gateway stores. */
  metrics: text(300, null),
  /** Time at which the TLS certificate of the listeners expires. Absent without TLS. */
  certificateEnds: text(40, null),
  /** Nodes that, within the last hour, reported more tokens than a request can use. */
  overstating: texts(50, 64, null),
  /** Nodes that have not responded to any of the gateway's requests for some time. */
  unanswering: texts(50, 64, null),
  /** Descriptions of node responses in the last hour whose format was unusual, ambiguous or unknown, with node and model. */
  oddForms: texts(50, 500, null),
  /** Whether the process ran out of file descriptors when connecting to a node within the last ten seconds. */
  outOfFiles: yes(null),
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
/** One value per gateway member. All are required, so none is forgotten. Reports omit undefined, false and empty values. */
export type GatewayMembers = {
  readonly [Name in GatewayMember]: MemberValue<Name> | false | undefined;
};
type MemberReport<Name extends GatewayMember> = { readonly [Each in Name]?: MemberValue<Each> };

export const gatewayMemberNames = Object.keys(gatewayMembers) as GatewayMember[];
export const shownMembers = gatewayMemberNames.filter(
  (name): name is ShownMember => gatewayMembers[name].shown !== null,
);

/** Returns those of the named members whose value is not undefined, false or empty. */
export function reportedMembers<Name extends GatewayMember>(
  names: readonly Name[],
  members: { readonly [Each in Name]?: MemberValue<Each> | false | undefined },
): MemberReport<Name> {
  const isThere = (value: unknown): boolean =>
    value !== undefined && value !== false && !(Array.isArray(value) && value.length === 0);
  const there = names.flatMap((name) => (isThere(members[name]) ? [[name, members[name]] as const] : []));
  return Object.fromEntries(there) as MemberReport<Name>;
}

/** Member to display, without the type of its value, so that members of all types can be handled alike. */
export interface ShownColumn extends Omit<MemberDisplay<unknown>, 'text' | 'tone'> {
  readonly member: ShownMember;
  readonly isLong: boolean;
  text(value: unknown): string;
  tone(value: unknown): ReturnType<NonNullable<MemberDisplay<unknown>['tone']>>;
}

/** Members to display, in the order of `gatewayMembers`. */
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
