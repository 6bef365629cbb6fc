/** Route `GET /doctor`, which runs the checks on everything that this replica knows. */

import { CommandError } from '../core/command-error.ts';
import { type DoctorGroup, doctorGroups } from '../doctor/check.ts';
import { diagnose } from '../doctor/diagnose.ts';
import { createPastReader } from './context.ts';
import { collectFacts, type DoctorContext } from './doctor-facts.ts';
import type { OperationHandlers } from './operations.ts';

function parseGroups(text: string | undefined): readonly DoctorGroup[] | undefined {
  if (text === undefined) return undefined;
  return text.split(',').map((name) => {
    const group = doctorGroups.find((known) => known === name);
    if (group === undefined)
      throw new CommandError(
        'InvalidCommand',
        `there is no group ${name}; choose from ${doctorGroups.join(', ')}`,
      );
    return group;
  });
}

export function doctorHandlers(context: DoctorContext): OperationHandlers<'doctor.get'> {
  return {
    'doctor.get': async ({ query: { only, skip }, request, reply }) => {
      const skipped = parseGroups(skip) ?? [];
      const groups = (parseGroups(only) ?? doctorGroups).filter((group) => !skipped.includes(group));
      const facts = await collectFacts(context, createPastReader(request, reply));
      const { checks, ...counts } = diagnose(facts, groups);
      return { checks: [...checks], ...counts, position: context.snapshot.seq };
    },
  };
}
