/** A check of `doctor`: a stable code, and a function that derives findings from the facts. */
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
  /** Subject of the finding, such as a node's name. */
  readonly object?: string;
  readonly text: string;
  readonly next: string;
}

/** Returns undefined if the facts that the check needs are not known. */
export type Find = (facts: DoctorFacts) => readonly Finding[] | undefined;

export interface DoctorCheck {
  /** `HG` and four digits. The first digit is the group. A code is never reused for another check. */
  readonly code: string;
  /** Sentence that is shown if the check finds nothing. */
  readonly well: string;
  readonly find: Find;
}

/** Value that is the same for all items, or a function of the item and all facts. */
type Said<Item, Value> = Value | ((item: Item, facts: DoctorFacts) => Value);

interface Row<Item> extends Pick<DoctorCheck, 'code' | 'well'> {
  /** Items that the check examines, or undefined if they are not known. */
  of(facts: DoctorFacts): readonly Item[] | undefined;
  readonly level: Said<Item, Finding['level']>;
  /** Whether the item is a finding. Without this function every item is one. */
  wrong?(item: Item, facts: DoctorFacts): boolean;
  /** Subject of the finding. The default is the item if it is a string, otherwise its name or id, if any. */
  object?(item: Item): string | undefined;
  readonly text: Said<Item, string>;
  readonly next: Said<Item, string>;
}

/** Builds a check that reports one finding for each wrong item. */
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

/** Returns a builder of checks that all examine the same items. */
export function defineChecks<Item>(of: Row<Item>['of']): (row: Omit<Row<Item>, 'of'>) => DoctorCheck {
  return (row) => check({ of, ...row });
}

function itemName(item: unknown): string | undefined {
  if (typeof item === 'string') return item;
  const { name, id } = Object(item) as { readonly name?: unknown; readonly id?: unknown };
  const found = name ?? id;
  return typeof found === 'string' ? found : undefined;
}

/** Wraps the item in a list, or undefined if the item is not known. */
export function only<Item>(item: Item | undefined): readonly Item[] | undefined {
  return item === undefined ? undefined : [item];
}

/** Smallest clock difference that is reported. Reports take a moment to arrive, so smaller differences prove nothing. */
const clockWarnSeconds = 30;

interface Clock {
  readonly clockAheadSeconds?: number | undefined;
}

/** Shared part of the checks that find processes whose clock differs from this replica's clock. */
export const wrongClock = {
  level: 'warn',
  wrong: ({ clockAheadSeconds: ahead = 0 }: Clock) => Math.abs(ahead) > clockWarnSeconds,
  text: ({ clockAheadSeconds: ahead = 0 }: Clock) =>
    `its clock is ${Math.round(Math.abs(ahead))} s ${ahead > 0 ? 'ahead of' : 'behind'} the clock of this replica`,
  next: 'synchronise the clocks of both machines, for example with chrony',
} as const;

const certificateWarnDays = 21;

/** Remaining time as findings state it, for example `in 3 days`. */
export function inDays(days: number): string {
  if (days === 0) return 'within a day';
  return days === 1 ? 'in 1 day' : `in ${days} days`;
}

interface Certified {
  readonly daysLeft?: number | undefined;
  readonly certificateFault?: string | undefined;
}

/** Shared part of the checks that find certificates that expire soon or cannot be used. */
export const endingCertificate = {
  level: ({ daysLeft = 0, certificateFault: fault }: Certified) =>
    fault !== undefined || daysLeft < 0 ? 'fail' : 'warn',
  wrong: ({ daysLeft = Number.POSITIVE_INFINITY, certificateFault: fault }: Certified) =>
    fault !== undefined || daysLeft < certificateWarnDays,
  text: ({ daysLeft = 0, certificateFault: fault }: Certified) => {
    if (fault !== undefined) return `it cannot be used: ${fault}`;
    return daysLeft < 0
      ? 'its certificate has expired'
      : `its certificate expires ${inDays(Math.floor(daysLeft))}`;
  },
  next: ({ certificateFault: fault }: Certified) =>
    fault !== undefined
      ? 'give it a certificate and its key in PEM format'
      : 'renew the file of the certificate: it is read again within a minute',
} as const;
