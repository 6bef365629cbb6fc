/**
 * Generates the JSON Schema files in schemas/json from the zod schemas. Each file describes one document that processes
 * exchange.
 */
import { z } from 'zod';
import { bodySchemas } from '../../schemas/admin/commands.ts';
import { refusalKinds } from '../../schemas/api/refusals.ts';
import { commitSchema } from '../../schemas/events/commit.ts';
import { eventDefinitions, eventTypeNames } from '../../schemas/events/event-definitions.ts';
import { writerSchema } from '../../schemas/events/events.ts';
import { fleetSchema } from '../../schemas/events/fleet.ts';
import { statusSchema } from '../../schemas/records/status.ts';
import { usageRowSchema } from '../../schemas/records/usage.ts';

function schemaOf(schema: z.ZodType, title: string): object {
  return { title, ...z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' }) };
}

/** Returns the text of each schema file, keyed by file name. */
export function jsonSchemaFiles(): Record<string, string> {
  const events = eventTypeNames.map((type) => {
    const { version, critical } = eventDefinitions[type];
    return [type, { version, critical, data: schemaOf(writerSchema(type), type) }];
  });
  const commands = Object.entries(bodySchemas).map(([name, schema]) => [name, schemaOf(schema, name)]);
  const documents: Record<string, object> = {
    'commit.json': schemaOf(commitSchema, 'One record of the control log'),
    'events.json': Object.fromEntries(events),
    'commands.json': Object.fromEntries(commands),
    'fleet.json': schemaOf(fleetSchema, 'The fleet file'),
    'status.json': schemaOf(statusSchema, 'What a process reports of itself'),
    'usage.json': schemaOf(usageRowSchema, 'Usage of one completed request'),
    'refusals.json': refusalKinds,
  };
  return Object.fromEntries(
    Object.entries(documents).map(([file, document]) => [file, `${JSON.stringify(document, null, 2)}\n`]),
  );
}
