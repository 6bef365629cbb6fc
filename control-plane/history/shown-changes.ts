/** Converts changes of rows to a form for people: each changed field with its values before and after. */
import type { RowChange } from '../../schemas/admin/admin-history.ts';
import type { SqlValue } from '../../shared/runtime/table-columns.ts';
import { tableSpecs } from '../../shared/snapshot/tables.ts';
import type { RowAtTwo } from './row-changes.ts';

/** Converts row changes. Omits the hashes of keys and tokens, and also routes, which are derived from other rows. */
export function shownChanges(changes: readonly RowAtTwo[]): RowChange[] {
  return changes.filter(({ table }) => table !== 'routes').flatMap(shownChange);
}

function shownChange({ table, key, before, after }: RowAtTwo): RowChange[] {
  const { columns } = tableSpecs[table];
  const names = Object.entries(columns)
    .filter(([, { sql }]) => sql !== 'BLOB')
    .map(([name]) => name);
  const fields = names.flatMap((name) => {
    const [was, is] = [before?.[name] ?? null, after?.[name] ?? null];
    return was === is ? [] : [{ field: name, before: shown(was), after: shown(is) }];
  });
  if (!before && !after) return [];
  if (before && after && fields.length === 0) return [];
  const action = before ? (after ? 'change' : 'remove') : 'create';
  return [{ action, table, id: key.join('/'), fields }];
}

function shown(value: SqlValue): string | number | null {
  return Buffer.isBuffer(value) ? null : value;
}
