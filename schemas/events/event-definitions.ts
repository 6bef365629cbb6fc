/** All event types of the control log. */
import { capacityEvents } from './events-capacity.ts';
import { changeEvents } from './events-changes.ts';
import { logEvents, notedEvents } from './events-log.ts';
import { tenantEvents } from './events-tenants.ts';

export const eventDefinitions = {
  ...logEvents,
  ...tenantEvents,
  ...capacityEvents,
  ...notedEvents,
  ...changeEvents,
};

export type EventTypeName = keyof typeof eventDefinitions;
export const eventTypeNames = Object.keys(eventDefinitions) as readonly EventTypeName[];

export function isEventType(type: string): type is EventTypeName {
  return Object.hasOwn(eventDefinitions, type);
}
