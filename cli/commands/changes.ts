/** `headgate change` shows a change that is released in waves, advances it or withdraws it. */
import type { Change } from '../../schemas/events/changes.ts';
import { parseCount } from '../terminal/options.ts';
import { ageColumn, column, type View } from '../terminal/render.ts';
import { listVerb, type NounRow, parsedField, runVerb, textField, writeVerb } from './operation-verbs.ts';
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
    listVerb('change.list', {
      verb: ['list', 'list the open change and the changes that have ended', 'headgate change list'],
      view: changeView,
    }),
    runVerb('change.get', {
      verb: [
        'show <change>',
        'show the waves of a change, and the figures of gateways inside and outside them',
        'headgate change show 17',
      ],
      print: (session, change) => showChange(session, change),
    }),
    writeVerb('change.advance', {
      verb: [
        'advance <change>',
        'start the next wave of a change; after the last wave, complete the change',
        'headgate change advance 17 --in-wave 1',
      ],
      options: { inWave: parsedField('--in-wave <n>', 'fail unless the change is in this wave', parseCount) },
      done: 'advanced',
    }),
    writeVerb('change.withdraw', {
      verb: [
        'withdraw <change>',
        'withdraw a change from every gateway that it has reached',
        'headgate change withdraw 17',
      ],
      options: { reason: textField('--reason <text>', 'reason for withdrawing the change') },
      done: 'withdrawn',
    }),
  ],
};
