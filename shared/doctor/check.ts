/** One check of `doctor`: a stable code, and what it finds in the facts. */
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
  /** What it is about, such as the name of a node. */
  readonly object?: string;
  readonly text: string;
  readonly next: string;
}

/** Undefined: the facts that it needs are not known. */
export type Find = (facts: DoctorFacts) => readonly Finding[] | undefined;

export interface DoctorCheck {
  /** `HG` and four digits; the first is the group. Never used again for another check. */
  readonly code: string;
  /** The sentence where all is well. */
  readonly well: string;
  readonly find: Find;
}

/** Applies a function to what is known of a part of the facts. */
export function of<Name extends keyof DoctorFacts>(
  name: Name,
  find: (facts: NonNullable<DoctorFacts[Name]>, all: DoctorFacts) => readonly Finding[],
): Find {
  return (facts) => {
    const known = facts[name];
    return known === undefined ? undefined : find(known as NonNullable<DoctorFacts[Name]>, facts);
  };
}

type Text<Item> = (item: Item) => string;

interface Clock {
  readonly name: string;
  readonly clockAheadSeconds?: number | undefined;
}

/** Reports take a moment, so less than this is no difference of clocks. */
const clockWarnSeconds = 30;

/** A finding for each process whose clock differs from that of this replica. */
export function wrongClocks(processes: readonly Clock[]): Finding[] {
  return each(
    processes,
    ({ clockAheadSeconds: ahead = 0 }) => Math.abs(ahead) > clockWarnSeconds,
    'warn',
    ({ name }) => name,
    ({ clockAheadSeconds: ahead = 0 }) =>
      `its clock is ${Math.round(Math.abs(ahead))} s ${ahead > 0 ? 'ahead of' : 'behind'} that of this replica`,
    () => 'synchronise the clocks of both machines, for example with chrony',
  );
}

const certificateWarnDays = 21;

/** A finding for each listener or process whose certificate ends soon. */
export function endingCertificates(
  owners: readonly {
    readonly name: string;
    readonly daysLeft?: number | undefined;
    readonly certificateFault?: string | undefined;
  }[],
): Finding[] {
  return owners.flatMap(
    ({ name, daysLeft = Number.POSITIVE_INFINITY, certificateFault: fault }): Finding[] => {
      if (fault !== undefined) {
        const next = 'give it a certificate and its key, both PEM';
        return [{ level: 'fail', object: name, text: `it cannot be used: ${fault}`, next }];
      }
      if (daysLeft >= certificateWarnDays) return [];
      const text =
        daysLeft < 0
          ? 'its certificate has expired'
          : `its certificate expires in ${Math.floor(daysLeft)} days`;
      const next = 'renew the file of the certificate: it is read again within a minute';
      return [{ level: daysLeft < 0 ? 'fail' : 'warn', object: name, text, next }];
    },
  );
}

/** A finding for each item that the condition selects. */
export function each<Item>(
  items: readonly Item[],
  selects: (item: Item) => boolean,
  level: Finding['level'],
  object: Text<Item>,
  text: Text<Item>,
  next: Text<Item>,
): Finding[] {
  return items
    .filter(selects)
    .map((item) => ({ level, object: object(item), text: text(item), next: next(item) }));
}

/** One finding where the condition holds. */
export function when(isWrong: boolean, level: Finding['level'], text: string, next: string): Finding[] {
  return isWrong ? [{ level, text, next }] : [];
}
