/** Defines what a `doctor` check is. A check has a stable code and derives findings from the collected facts. */
import type { DoctorFacts } from './facts.ts';

export const doctorGroups = [
  'machine',
  'log',
  'control-planes',
  'gateways',
  'nodes',
  'models',
  'limits',
  'console',
  'changes',
] as const;
export type DoctorGroup = (typeof doctorGroups)[number];

export interface Finding {
  readonly level: 'warn' | 'fail';
  /** Subject of the finding, such as the name of a node. */
  readonly object?: string;
  readonly text: string;
  readonly next: string;
}

/** Returns the findings, or undefined if the facts that the check needs are not known. */
export type Find = (facts: DoctorFacts) => readonly Finding[] | undefined;

export interface DoctorCheck {
  /** `HG` and four digits, of which the first is the group. A code is never reused for another check. */
  readonly code: string;
  /** Sentence to show if the check finds nothing. */
  readonly well: string;
  readonly find: Find;
}

/** A value that all items share, or a function that computes it from the item and the facts. */
type Said<Item, Value> = Value | ((item: Item, facts: DoctorFacts) => Value);

interface Row<Item> extends Pick<DoctorCheck, 'code' | 'well'> {
  /** Lists the items to examine, or returns undefined if they are not known. */
  of(facts: DoctorFacts): readonly Item[] | undefined;
  readonly level: Said<Item, Finding['level']>;
  /** Whether the item is a finding. If absent, every item is a finding. */
  wrong?(item: Item, facts: DoctorFacts): boolean;
  /** Names what the finding is about. By default this is the item if it is a string, otherwise its name or id. */
  object?(item: Item): string | undefined;
  readonly text: Said<Item, string>;
  readonly next: Said<Item, string>;
}

/** Builds a check that reports one finding for each item that is wrong. */
export function check<Item>({ code, well, of, wrong, object = itemName, ...row }: Row<Item>): DoctorCheck {
  const find: Find = (facts) => {
    const toFinding = (item: Item): Finding => {
      const said = <Value extends string>(value: Said<Item, Value>): Value =>
        typeof value === 'function' ? value(item, facts) : value;
      const name = object(item);
      return {
        level: said(row.level),
        ...(name !== undefined && { object: name }),
        ...{ text: said(row.text), next: said(row.next) },
      };
    };
    const wrongOnes = (items: readonly Item[]) =>
      wrong === undefined ? items : items.filter((item) => wrong(item, facts));
    const items = of(facts);
    return items && wrongOnes(items).map(toFinding);
  };
  return { code, well, find };
}

/** Returns a function that builds checks on the given items. */
export function defineChecks<Item>(of: Row<Item>['of']): (row: Omit<Row<Item>, 'of'>) => DoctorCheck {
  return (row) => check({ of, ...row });
}

function itemName(item: unknown): string | undefined {
  if (typeof item === 'string') return item;
  const { name, id } = Object(item) as { readonly name?: unknown; readonly id?: unknown };
  const found = name ?? id;
  return typeof found === 'string' ? found : undefined;
}

/** Wraps the item in a list, or returns undefined if the item is not known. */
export function only<Item>(item: Item | undefined): readonly Item[] | undefined {
  return item === undefined ? undefined : [item];
}

/** Clock difference in seconds that is reported. Smaller ones prove nothing, because reports take a moment to arrive. */
const clockWarnSeconds = 30;

interface Clock {
  readonly clockAheadSeconds?: number | undefined;
}

/** Fields shared by the checks that compare a process's clock with this replica's clock. */
export const wrongClock = {
  level: 'warn',
  wrong: ({ clockAheadSeconds: ahead = 0 }: Clock) => Math.abs(ahead) > clockWarnSeconds,
  text: ({ clockAheadSeconds: ahead = 0 }: Clock) =>
    `its clock is ${Math.round(Math.abs(ahead))} s ${ahead > 0 ? 'ahead of' : 'behind'} the clock of this replica`,
  next: 'synchronise the clocks of both machines, for example with chrony',
} as const;

const certificateWarnDays = 21;

/** Formats the remaining time for a finding, for example `in 3 days`. */
export function inDays(days: number): string {
  if (days === 0) return 'within a day';
  return days === 1 ? 'in 1 day' : `in ${days} days`;
}

interface CertificateFacts {
  readonly daysLeft?: number | undefined;
  readonly certificateFault?: string | undefined;
}

/** Fields shared by the checks that find certificates that expire soon or cannot be used. */
export const endingCertificate = {
  level: ({ daysLeft = 0, certificateFault: fault }: CertificateFacts) =>
    fault !== undefined || daysLeft < 0 ? 'fail' : 'warn',
  wrong: ({ daysLeft = Number.POSITIVE_INFINITY, certificateFault: fault }: CertificateFacts) =>
    fault !== undefined || daysLeft < certificateWarnDays,
  text: ({ daysLeft = 0, certificateFault: fault }: CertificateFacts) => {
    if (fault !== undefined) return `it cannot be used: ${fault}`;
    return daysLeft < 0
      ? 'its certificate has expired'
      : `its certificate expires ${inDays(Math.floor(daysLeft))}`;
  },
  next: ({ certificateFault: fault }: CertificateFacts) =>
    fault !== undefined
      ? 'provide a certificate and its key in PEM format'
      : 'renew the file of the certificate: it is read again within a minute',
} as const;
