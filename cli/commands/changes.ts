/** `headgate change`: a change that is released in waves, how far it is, and how it ends. */
import type { Change } from '../../schemas/events/changes.ts';
import { count } from '../terminal/options.ts';
import { ageColumn, column, type View } from '../terminal/render.ts';
import { list, type NounRow, parsed, run, text, write } from './operation-verbs.ts';
import { showChange } from './staged-change.ts';

const changeView: View<Change> = {
  columns: [
    column('ID', 'id'),
    { ...column('STATE', 'state'), severity: ({ state }) => (state === 'withdrawn' ? 'bad' : undefined) },
    { heading: 'WAVE', cell: ({ wave, waves }) => `${wave}/${waves.length}` },
    ageColumn('AGE', 'at'),
    column('BY', 'by'),
    { heading: 'NEXT', cell: ({ next, reason }) => reason ?? next, isLong: true },
  ],
  name: ({ id }) => id,
};

export const changes: NounRow = {
  noun: ['change', 'changes that are released in waves', 'deployed', 'headgate change list'],
  verbs: [
    list('change.list', {
      verb: ['list', 'list the staged change, and those that are over', 'headgate change list'],
      view: changeView,
    }),
    run('change.get', {
      verb: [
        'show <change>',
        'show its waves, and what gateways counted in and out of them',
        'headgate change show 17',
      ],
      print: (session, change) => showChange(session, change),
    }),
    write('change.advance', {
      verb: [
        'advance <change>',
        'continue with its next wave; after the last, complete it',
        'headgate change advance 17 --in-wave 1',
      ],
      options: { inWave: parsed('--in-wave <n>', 'only where it is in this wave', count) },
      done: 'advanced',
    }),
    write('change.withdraw', {
      verb: [
        'withdraw <change>',
        'take it back from the gateways that have it',
        'headgate change withdraw 17',
      ],
      options: { reason: text('--reason <text>', 'why; by hand by default') },
      done: 'withdrawn',
    }),
  ],
};
