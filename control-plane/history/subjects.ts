/** Collects the subjects of events, which are used to filter lists of events. */
import { idKind } from '../../schemas/events/event-sentences.ts';
import { type TableName, type TableRow, tableSpecs } from '../../shared/snapshot/tables.ts';

export const subjectKinds = ['type', 'actor', 'organisation', 'key', 'stack', 'node'] as const;
type SubjectKind = (typeof subjectKinds)[number];

export class Subjects {
  readonly #found = new Map<string, readonly [SubjectKind, string]>();

  add(kind: SubjectKind, id: unknown): void {
    if (typeof id !== 'string' || id === '' || id.length > 200) return;
    this.#found.set(`${kind} ${id}`, [kind, id.toWellFormed()]);
  }

  /** Adds the subject of a place, which is `stack:ID` or `organisation:ID`. */
  addPlace(place: unknown): void {
    if (typeof place !== 'string') return;
    const [kind, id] = place.split(':', 2);
    if (kind === 'stack' || kind === 'organisation') this.add(kind, id);
  }

  /** Adds the subjects named in an event's data, even if the fold skipped the event. */
  addEvent(type: string, data: unknown): void {
    this.add('type', type);
    if (typeof data !== 'object' || data === null) return;
    const fields = data as Readonly<Record<string, unknown>>;
    const noun = subjectKinds.find((kind) => kind === idKind(type));
    if (noun !== undefined) this.add(noun, fields['id']);
    for (const kind of ['organisation', 'stack', 'node'] as const) this.add(kind, fields[kind]);
  }

  addRow(table: TableName, row: TableRow): void {
    if (table === 'organisation' || table === 'stack' || table === 'node') this.add(table, row['id']);
    if (table === 'api_key') this.add('key', row['id']);
    if (table === 'routes') return;
    const { columns } = tableSpecs[table];
    for (const kind of ['organisation', 'stack', 'node'] as const)
      if (kind in columns) this.add(kind, row[kind]);
    if (table === 'node') this.addPlace(row['place']);
  }

  of(kind: SubjectKind): string[] {
    return [...this.#found.values()].filter(([each]) => each === kind).map(([, id]) => id);
  }

  all(): IterableIterator<readonly [SubjectKind, string]> {
    return this.#found.values();
  }
}
