/** Health of a node: what was observed, which part of that belongs in the log, and how the two differ. */
import { type Beat, type LiveNode, unlistedMax } from '../../schemas/records/node-messages.ts';
import { parseColumn } from '../../shared/runtime/table-columns.ts';
import { formatNames } from '../../shared/snapshot/effects-capacity.ts';
import type { RowOf } from '../../shared/snapshot/tables.ts';

export type NodeRow = RowOf<'node'>;

export interface Health {
  readonly up: boolean;
  readonly models: readonly string[];
  readonly windows: Readonly<Record<string, number>>;
  readonly imageModels: readonly string[];
  readonly rerankModels: readonly string[];
  readonly reason?: string | undefined;
}

/** Returns the last reported health of a node, or undefined before the first report. */
export function lastReportedUp(node: NodeRow): boolean | undefined {
  return node.changed_at === null ? undefined : node.up === 1;
}

/**
 * Returns a function that tells whether a model name belongs in the log, because requests can use it. This is true for names
 * in the catalog, the names that the node was registered with, and all names on an organisation's own node.
 */
export function isForLog(row: NodeRow, isCatalogued: (model: string) => boolean): (name: string) => boolean {
  if (row.place.startsWith('organisation:')) return () => true;
  const declared = new Set(row.models === null ? [] : Object.values(parseColumn(row.models)));
  return (name) => declared.has(name) || isCatalogued(name);
}

/** Splits the observed health into the part for the log and some of the other model names, which are shown to people. */
export function partForLog(
  health: Health,
  isKnown: (name: string) => boolean,
  bytesMax: number,
): { readonly health: Health; readonly unlisted: NonNullable<LiveNode['unlisted']> } {
  const unlisted: string[] = [];
  const windows: Record<string, number> = {};
  const images = new Set(health.imageModels);
  const rerankers = new Set(health.rerankModels);
  const kept: string[] = [];
  let bytes = 0;
  // Sorts the names, so that the choice of those that fit does not depend on the order in which the engine lists them.
  for (const name of [...new Set(health.models)].sort()) {
    const window = Object.hasOwn(health.windows, name) ? health.windows[name] : undefined;
    // Counts the quoted name four times: as a model, with its window, as an image model and as a reranker.
    const size = 4 * (Buffer.byteLength(JSON.stringify(name)) + 1) + 20;
    if (!isKnown(name)) {
      if (unlisted.length < unlistedMax) unlisted.push(name);
    } else if (bytes + size <= bytesMax) {
      bytes += size;
      kept.push(name);
      if (window !== undefined) windows[name] = window;
    }
  }
  const imageModels = kept.filter((name) => images.has(name));
  const rerankModels = kept.filter((name) => rerankers.has(name));
  return { health: { ...health, models: kept, windows, imageModels, rerankModels }, unlisted };
}

/** Extracts health from a heartbeat. An engine of the wrong dialect counts as down, because it cannot answer requests. */
export function toHealth(heartbeat: Beat, row: NodeRow): Health {
  const { up, dialect, models, windows = {}, imageModels = [], rerankModels = [], reason } = heartbeat;
  if (!up) return down(reason);
  if (dialect !== undefined && dialect !== row.dialect)
    return down(`the engine is ${dialect}, but the node is registered as ${row.dialect}`);
  const served = new Set(models);
  return {
    up,
    models,
    windows: Object.fromEntries(Object.entries(windows).filter(([name]) => served.has(name))),
    imageModels: imageModels.filter((name) => served.has(name)),
    rerankModels: rerankModels.filter((name) => served.has(name)),
  };
}

export function down(reason: string | undefined): Health {
  return { up: false, models: [], windows: {}, imageModels: [], rerankModels: [], reason };
}

/** Whether the health in the log differs from the given health. Ignores names that do not belong in the log. */
export function differs(node: NodeRow, health: Health, isKnown: (name: string) => boolean): boolean {
  if ((node.up === 1) !== health.up) return true;
  if (!health.up) return node.changed_at === null;
  const isSameText =
    node.loaded === formatNames(health.models) &&
    node.windows === JSON.stringify(health.windows) &&
    node.image_models === formatNames(health.imageModels) &&
    node.rerank_models === formatNames(health.rerankModels);
  if (isSameText) return false;
  const names = (text: RowOf<'node'>['loaded']): string => formatNames(parseColumn(text).filter(isKnown));
  const windowsOf = (windows: Health['windows']): string =>
    JSON.stringify(
      Object.entries(windows)
        .filter(([name]) => isKnown(name))
        .sort(),
    );
  return (
    names(node.loaded) !== formatNames(health.models) ||
    names(node.image_models) !== formatNames(health.imageModels) ||
    names(node.rerank_models) !== formatNames(health.rerankModels) ||
    windowsOf(parseColumn(node.windows)) !== windowsOf(health.windows)
  );
}
