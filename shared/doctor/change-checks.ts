/** Checks of changes that are released in waves. */
import { type DoctorCheck, each, of } from './check.ts';
import { nextOfHalted } from './halted.ts';

/** Longer than releases take; the alert for one has the same bound. */
const openHoursMax = 24;

const hoursText = (hours: number): string =>
  hours < 1 ? 'within the last hour' : `${Math.floor(hours)} h ago`;

export const changeChecks: readonly DoctorCheck[] = [
  {
    code: 'HG9001',
    well: 'no change stands still',
    find: of('changes', ({ open }) =>
      each(
        open ? [open] : [],
        ({ stuck, openHours }) => stuck !== undefined || openHours >= openHoursMax,
        'warn',
        ({ id }) => id,
        ({ stuck, openHours }) => stuck ?? `it has been open for ${Math.floor(openHours)} h`,
        ({ id }) => `headgate change show ${id}, then headgate change advance or withdraw`,
      ),
    ),
  },
  {
    code: 'HG9002',
    well: 'no change was withdrawn by itself in the last day',
    find: of('changes', ({ withdrawn }) =>
      each(
        withdrawn,
        () => true,
        'warn',
        ({ id }) => id,
        ({ reason, hoursAgo }) => `it was withdrawn ${hoursText(hoursAgo)}: ${reason}`,
        ({ id }) =>
          `headgate events show ${id} has what it would have changed; correct it and stage it again`,
      ),
    ),
  },
  {
    code: 'HG9003',
    well: 'gateways in the wave of a change follow the log',
    find: of('changes', ({ open }) =>
      each(
        open?.halted ?? [],
        () => true,
        'fail',
        ({ gateway }) => gateway,
        ({ reason }) => `it is in the wave of the change ${open?.id} and does not follow the log: ${reason}`,
        ({ reason }) => nextOfHalted(reason),
      ),
    ),
  },
];
