/** `GET /doctor`: what the checks find in all that this replica knows. */
import type { FastifyInstance } from 'fastify';
import { z } from 'zod';
import type { AdminResponse } from '../../schemas/admin.ts';
import { type DoctorGroup, doctorGroups } from '../../shared/doctor/check.ts';
import { diagnose } from '../../shared/doctor/diagnose.ts';
import { CommandError } from '../core/command-error.ts';
import { type AdminContext, parseQuery, pastReaderOf } from './context.ts';
import { collectFacts } from './doctor-facts.ts';

const querySchema = z.object({ only: z.string().max(200).optional(), skip: z.string().max(200).optional() });

function groupsIn(text: string | undefined): readonly DoctorGroup[] | undefined {
  if (text === undefined) return undefined;
  return text.split(',').map((name) => {
    const group = doctorGroups.find((known) => known === name);
    if (group === undefined)
      throw new CommandError(
        'InvalidCommand',
        `there is no group ${name}; there are ${doctorGroups.join(', ')}`,
      );
    return group;
  });
}

export function registerDoctorRoute(app: FastifyInstance, context: AdminContext): void {
  app.route({
    method: 'GET',
    url: '/doctor',
    config: { access: 'operator' },
    schema: { summary: 'What the checks of doctor find', querystring: querySchema },
    validatorCompiler: () => (data: unknown) => ({ value: data }),
    handler: async (request, reply): Promise<AdminResponse<'GET /doctor'>> => {
      const { only, skip } = parseQuery(querySchema, request.query);
      const skipped = groupsIn(skip) ?? [];
      const groups = (groupsIn(only) ?? doctorGroups).filter((group) => !skipped.includes(group));
      const { checks, ...counts } = diagnose(
        await collectFacts(context, pastReaderOf(request, reply)),
        groups,
      );
      return { checks: [...checks], ...counts, position: context.snapshot.seq };
    },
  });
}
