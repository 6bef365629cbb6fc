/**
 * Who may ask what on one state: each organisation at the shared host and at its stacks, and visitors. Askers with the same
 * rules get the same answers, so each set of rules is decided once, whatever the number of organisations.
 */
import type { OperationKind } from '../../schemas/operations.ts';
import type { Database } from '../../shared/runtime/sqlite.ts';
import { all } from '../../shared/runtime/statements.ts';
import { servedModels } from '../../shared/snapshot/routes.ts';
import type { RowOf } from '../../shared/snapshot/tables.ts';
import { groupBy } from './group-by.ts';

export interface EffectAsker {
  /** undefined: visitors. */
  readonly organisation: string | undefined;
  /** `shared`, or a stack. */
  readonly host: string;
  /** What its answers depend on, but for the model and what all askers share. */
  readonly rules: string;
  /** What nodes could answer it: operations by model. */
  readonly models: Models;
}
type Models = ReadonlyMap<string, readonly OperationKind[]>;

export const sharedHost = 'shared';

export function askerId({ organisation, host }: Pick<EffectAsker, 'organisation' | 'host'>): string {
  return `${organisation ?? ''} ${host}`;
}

interface ServedRow {
  readonly place: string;
  readonly model: string;
  /** Of its nodes, whether all and whether some rerank. */
  readonly all: number;
  readonly some: number;
}

/** Rows of models by place. */
function servedByPlace(db: Database): ReadonlyMap<string, readonly ServedRow[]> {
  const sql =
    'SELECT place, model, min(reranks) AS "all", max(reranks) AS some FROM routes GROUP BY place, model ORDER BY place, model';
  return groupBy(all<ServedRow>(db, sql), ({ place }) => place);
}

function modelsOf(rows: readonly ServedRow[], surface: string): Models {
  return new Map(rows.map((row) => [row.model, operationsOf(row, surface)]));
}

function operationsOf({ all: onlyReranks, some: reranks }: ServedRow, surface: string): OperationKind[] {
  if (surface === 'anthropic') return ['messages'];
  return [...(onlyReranks === 1 ? [] : ['chat' as const]), ...(reranks === 1 ? ['rerank' as const] : [])];
}

/** What own nodes had loaded last, up or not: it decides between two refusals. */
function loadedByPlace(db: Database): ReadonlyMap<string, readonly string[]> {
  const sql = "SELECT place, loaded, models FROM node WHERE place LIKE 'organisation:%' ORDER BY id";
  const rows = all<Pick<RowOf<'node'>, 'place' | 'loaded' | 'models'>>(db, sql);
  const found = new Map<string, string[]>();
  for (const row of rows)
    found.set(row.place, [...(found.get(row.place) ?? []), ...servedModels(row).keys()]);
  return found;
}

function installsByStack(db: Database): ReadonlyMap<string, readonly string[]> {
  const sql = 'SELECT stack, model FROM stack_model ORDER BY stack, model';
  const rows = all<Pick<RowOf<'stack_model'>, 'stack' | 'model'>>(db, sql);
  const byStack = groupBy(rows, ({ stack }) => stack);
  return new Map([...byStack].map(([stack, of]) => [stack, of.map(({ model }) => model)]));
}

/** Capacity of an asker's own as a text; equal texts, equal answers. */
function rulesOf(served: readonly ServedRow[], rest: readonly string[]): string {
  return JSON.stringify([served.map(({ model, all, some }) => [model, all, some]), rest]);
}

function planOf({ tier, suspended }: Pick<RowOf<'organisation'>, 'tier' | 'suspended'>): string {
  return JSON.stringify([tier, suspended]);
}

type ServedByPlace = ReturnType<typeof servedByPlace>;

function sharedAskers(db: Database, served: ServedByPlace, pool: Models): EffectAsker[] {
  const loadedOf = loadedByPlace(db);
  const sql = 'SELECT id, tier, suspended FROM organisation ORDER BY id';
  return all<Pick<RowOf<'organisation'>, 'id' | 'tier' | 'suspended'>>(db, sql).map((row): EffectAsker => {
    const key = `organisation:${row.id}`;
    const [own = [], loaded = []] = [served.get(key), loadedOf.get(key)];
    const asker = { organisation: row.id, host: sharedHost };
    if (own.length === 0 && loaded.length === 0) return { ...asker, rules: planOf(row), models: pool };
    const models = new Map(pool);
    for (const [model, operations] of modelsOf(own, 'openai'))
      models.set(model, [...new Set([...(pool.get(model) ?? []), ...operations])]);
    return { ...asker, rules: `${planOf(row)} ${rulesOf(own, [...loaded].sort())}`, models };
  });
}

interface StackRow extends Pick<RowOf<'stack'>, 'id' | 'organisation' | 'surface'> {
  readonly tier: string | null;
  readonly suspended: number;
}

function stackAskers(db: Database, served: ServedByPlace): EffectAsker[] {
  const installs = installsByStack(db);
  const sql =
    'SELECT s.id, s.organisation, s.surface, o.tier, o.suspended FROM stack s JOIN organisation o ON o.id = s.organisation ORDER BY s.id';
  return all<StackRow>(db, sql).map((row): EffectAsker => {
    const { id: host, organisation, surface } = row;
    const own = served.get(`stack:${host}`) ?? [];
    const rules = `${planOf(row)} ${surface} ${rulesOf(own, installs.get(host) ?? [])}`;
    return { organisation, host, rules, models: modelsOf(own, surface) };
  });
}

/** By `askerId`. */
export function askersOn(db: Database): Map<string, EffectAsker> {
  const served = servedByPlace(db);
  const pool = modelsOf(served.get('pool') ?? [], 'openai');
  const visitors: EffectAsker = {
    organisation: undefined,
    host: sharedHost,
    rules: 'visitors',
    models: pool,
  };
  const askers = [visitors, ...sharedAskers(db, served, pool), ...stackAskers(db, served)];
  return new Map(askers.map((asker) => [askerId(asker), asker]));
}
