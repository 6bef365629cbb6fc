/** Decides a request for every model on every host of an organisation, one page of models at a time. */
import type { AdminResponse } from '../../schemas/admin/admin.ts';
import type { PlaceKey } from '../../schemas/names.ts';
import { explainRequestSchema } from '../../schemas/records/explanations.ts';
import type { Database } from '../../shared/runtime/sqlite.ts';
import { createLookup, type Lookup } from '../../shared/snapshot/lookup.ts';
import { listStacks } from '../state/capacity.ts';
import { findTier, modelIds } from '../state/catalog.ts';
import { findOrganisation } from '../state/tenants.ts';
import { decideAnswerWithLookup } from './described.ts';
import { imagineQuestion } from './imagined.ts';
import type { CounterFacts } from './recorded-counters.ts';

export interface MatrixQuestion {
  readonly organisation: string;
  /** `shared` or a stack's id. Absent to include all hosts. */
  readonly host?: string | undefined;
  /** Last model of the previous page. */
  readonly after?: string | undefined;
}

type Matrix = AdminResponse<'GET /explain/matrix'>;
type Cell = Matrix['items'][number];
export type MatrixPage = Pick<Matrix, 'items' | 'next'>;

/** Maximum number of answers on a page. All hosts of a model are always on the same page. */
const cellsMax = 1000;

/** Lists the models of the organisation's tier, stacks and own nodes. */
function listMatrixModels(db: Database, id: string): string[] {
  const tier = findOrganisation(db, id)?.tier ?? null;
  const planned = tier === null ? [] : (findTier(db, tier)?.models ?? []);
  if (planned === '*') return modelIds(db).sort();
  const installed = listStacks(db, id).flatMap(({ models }) => models);
  const own = createLookup(db).listing(`organisation:${id}`);
  return [...new Set([...planned, ...installed, ...own.map((model) => model.id)])].sort();
}

interface Plan {
  readonly cells: readonly Pick<Cell, 'model' | 'host'>[];
  readonly next: string | undefined;
}

function planPage(db: Database, { organisation, host, after = '' }: MatrixQuestion): Plan {
  const all = ['shared', ...listStacks(db, organisation).map(({ id }) => id)];
  const hosts = all.filter((each) => host === undefined || each === host);
  const models = listMatrixModels(db, organisation).filter((model) => model > after);
  const shown = models.slice(0, Math.max(1, Math.floor(cellsMax / Math.max(1, hosts.length))));
  return {
    cells: shown.flatMap((model) => hosts.map((each) => ({ model, host: each }))),
    next: shown.length < models.length ? shown.at(-1) : undefined,
  };
}

/** Chooses the operation of the request to decide, by the stack's API surface and by whether the model only reranks. */
function chooseOperation(
  lookup: Lookup,
  organisation: string,
  { model, host }: Pick<Cell, 'model' | 'host'>,
): Cell['path'] {
  if (host !== 'shared' && lookup.stack(host)?.surface === 'anthropic') return 'messages';
  const places: readonly PlaceKey[] =
    host === 'shared' ? [`organisation:${organisation}`, 'pool'] : [`stack:${host}`];
  const routes = places.map((place) => lookup.routes(place, model)).find((found) => found.length > 0) ?? [];
  return routes.length > 0 && routes.every(({ reranks }) => reranks) ? 'rerank' : 'chat';
}

/** Computes a page, one answer at a time. Yields after each one, so that the caller can run other work in between. */
export function* matrixSteps(
  db: Database,
  question: MatrixQuestion,
  counters: CounterFacts,
  nowMs: number,
): Generator<void, MatrixPage> {
  const { organisation } = question;
  const { cells, next } = planPage(db, question);
  const lookup = createLookup(db);
  const items: Cell[] = [];
  for (const { model, host } of cells) {
    const path = chooseOperation(lookup, organisation, { model, host });
    const ask = explainRequestSchema.parse({ organisation, model, host, path });
    const { served, status, type } = decideAnswerWithLookup(lookup, imagineQuestion(ask, counters, nowMs));
    items.push({ model, host, path, served, status, ...(type !== undefined && { type }) });
    yield;
  }
  return { items, ...(next !== undefined && { next }) };
}
