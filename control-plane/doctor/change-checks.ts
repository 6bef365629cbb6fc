/** `doctor` checks for changes that are released in waves. */
import { check, type DoctorCheck } from './check.ts';
import { nextOfHalted } from './halted.ts';

/** Hours after which an open change is reported, because releases normally take less time. The alert has the same limit. */
const openHoursMax = 24;

const hoursText = (hours: number): string =>
  hours < 1 ? 'within the last hour' : `${Math.floor(hours)} h ago`;

export const changeChecks: readonly DoctorCheck[] = [
  check({
    code: 'HG9001',
    well: 'no open change is stuck',
    of: ({ changes }) => changes && (changes.open ? [changes.open] : []),
    level: 'warn',
    wrong: ({ stuck, openHours }) => stuck !== undefined || openHours >= openHoursMax,
    text: ({ stuck, openHours }) => stuck ?? `it has been open for ${Math.floor(openHours)} h`,
    next: ({ id }) => `headgate change show ${id}, then headgate change advance or withdraw`,
  }),
  check({
    code: 'HG9002',
    well: 'no change was withdrawn automatically in the last day',
    of: ({ changes }) => changes?.withdrawn,
    level: 'warn',
    text: ({ reason, hoursAgo }) => `it was withdrawn ${hoursText(hoursAgo)}: ${reason}`,
    next: ({ id }) =>
      `headgate events show ${id} shows what it would have changed; correct it and stage it again`,
  }),
  check({
    code: 'HG9003',
    well: 'gateways in the wave of a change follow the log',
    of: ({ changes }) => changes && (changes.open?.halted ?? []),
    level: 'fail',
    object: ({ gateway }) => gateway,
    text: ({ reason }, { changes }) =>
      `change ${changes?.open?.id} has reached it, and it does not follow the log: ${reason}`,
    next: ({ reason }) => nextOfHalted(reason),
  }),
];
