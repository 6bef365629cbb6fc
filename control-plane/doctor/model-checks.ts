/** `doctor` checks for models, tiers, organisations, keys, limits and listeners. */
import { overweightNext, overweightText } from '../../schemas/events/overweight.ts';
import { check, type DoctorCheck, endingCertificate, inDays } from './check.ts';
import type { DoctorFacts } from './facts.ts';

const keyWarnDays = 7;
/** Commit authors that are not people. Authors whose names contain a colon are not people either. */
const noPersons: readonly string[] = ['operator', 'restore', 'checkpoint'];

const at = (place: string, model: string): string => `${place}/${model}`;

/** Returns the models that are loaded on serving nodes, with their places. */
function loadedModels({ nodes = [] }: DoctorFacts): Set<string> {
  const serving = nodes.filter(({ up, drained }) => up && !drained);
  return new Set(serving.flatMap(({ place, models }) => models.map((model) => at(place, model))));
}

export const modelChecks: readonly DoctorCheck[] = [
  check({
    code: 'HG6001',
    well: 'installed models are loaded',
    of: (facts) => {
      const loaded = loadedModels(facts);
      return (
        facts.nodes && facts.models?.installs.filter(({ place, model }) => !loaded.has(at(place, model)))
      );
    },
    level: 'fail',
    object: ({ place, model }) => at(place, model),
    text: ({ place }) =>
      `installed, but not loaded on any serving node: requests get ${place === 'pool' ? 503 : 404}`,
    next: 'load it on a node, undrain one, or uninstall it',
  }),
  check({
    code: 'HG6002',
    well: 'loaded models are installed',
    of: ({ models: known, nodes = [] }) => {
      const installed = new Set(known?.installs.map(({ place, model }) => at(place, model)));
      const catalog = new Set(known?.catalog);
      const serving = nodes.filter(({ place, up }) => up && !place.startsWith('organisation:'));
      const loaded = serving.flatMap(({ id, place, models }) =>
        models.map((model) => ({ id, place, model })),
      );
      return (
        known && loaded.filter(({ place, model }) => catalog.has(model) && !installed.has(at(place, model)))
      );
    },
    level: 'warn',
    object: ({ id, model }) => `${id}/${model}`,
    text: ({ place }) => `loaded but not installed on ${place}, so nobody can use it`,
    next: ({ place, model }) =>
      place === 'pool'
        ? `headgate pool install ${model}`
        : `headgate stack install ${place.slice(6)} ${model}`,
  }),
  check({
    code: 'HG6003',
    well: 'models of the pool are in a tier',
    of: ({ models: known }) => {
      const offered = [...(known?.tiers ?? []).map(({ models }) => models), known?.anonymousModels ?? []];
      const inTier = (model: string): boolean =>
        offered.some((models) => models === '*' || models.includes(model));
      return known?.installs.filter(({ place, model }) => place === 'pool' && !inTier(model));
    },
    level: 'warn',
    object: ({ model }) => model,
    text: 'installed on the pool, but no tier includes it',
    next: 'add it to a tier: headgate tier set',
  }),
  check({
    code: 'HG6004',
    well: 'tiers include models',
    of: ({ models }) => models?.tiers,
    level: 'warn',
    wrong: ({ models }) => models !== '*' && models.length === 0,
    text: 'the tier includes no model',
    next: ({ id }) => `headgate tier set ${id} --models …`,
  }),
  check({
    code: 'HG6005',
    well: 'organisations with keys are on a tier',
    of: ({ models }) => models?.organisations,
    level: 'warn',
    wrong: ({ tier, activeKeys }, { models }) =>
      activeKeys > 0 && models?.tiers.some(({ id }) => id === tier) === false,
    text: ({ tier, activeKeys }) =>
      `it has ${activeKeys} active ${activeKeys === 1 ? 'key' : 'keys'} and ${tier === null ? 'no tier' : `a tier that does not exist, ${tier}`}`,
    next: ({ id }) => `headgate org set ${id} --tier …`,
  }),
  check({
    code: 'HG6006',
    well: 'no key expires within a week',
    of: ({ models }) => models?.keys,
    level: 'warn',
    wrong: ({ expiresInDays: days }) => days !== null && days >= 0 && days < keyWarnDays,
    text: ({ organisation, expiresInDays }) =>
      `a key of ${organisation} expires ${inDays(Math.floor(expiresInDays ?? 0))}`,
    next: ({ id, organisation }) =>
      `headgate key create --org ${organisation} --name NAME --expires 90d, deploy it, then headgate key revoke ${id}`,
  }),
  check({
    code: 'HG6007',
    well: 'keys belong to people who are still members',
    of: ({ models }) => {
      const known = new Set(models?.organisations.map(({ id }) => id));
      const people = new Set(models?.members.map(({ organisation, person }) => `${organisation} ${person}`));
      return models?.keys.filter(
        ({ organisation, createdBy }) =>
          !noPersons.includes(createdBy) &&
          !createdBy.includes(':') &&
          known.has(organisation) &&
          !people.has(`${organisation} ${createdBy}`),
      );
    },
    level: 'warn',
    text: ({ organisation, createdBy }) =>
      `created by ${createdBy}, who is no longer a member of ${organisation}`,
    next: ({ id }) => `headgate key revoke ${id}, or keep it on purpose: --skip models`,
  }),
  check({
    code: 'HG6008',
    well: 'tiers name models of the catalog',
    of: ({ models: known }) =>
      known?.tiers.flatMap(({ id, models }) =>
        (models === '*' ? [] : models)
          .filter((model) => !known.catalog.includes(model))
          .map((model) => ({ id, model })),
      ),
    level: 'warn',
    text: ({ model }) => `the tier includes ${model}, which is not in the catalog`,
    next: ({ model }) => `headgate model set ${model} --family NAME, or remove it from the tier`,
  }),
];

export const limitChecks: readonly DoctorCheck[] = [
  check({
    code: 'HG7001',
    well: 'totals of usage agree with the rows',
    of: ({ limits }) =>
      limits?.fileFaults.flatMap(({ object, differs }) => (differs ? [{ object, ...differs }] : [])),
    level: 'fail',
    object: ({ object }) => object,
    text: ({ day, counted, rows }) =>
      `on ${day} ${counted} requests were counted, but ${rows} rows are kept for billing`,
    next: 'compare with another replica; restore usage.db of the one that differs: see docs/recover.md',
  }),
  check({
    code: 'HG7002',
    well: 'tiers of organisations have limits',
    of: ({ models }) => models?.tiers,
    level: 'warn',
    wrong: ({ id, requestsPerMinute, concurrency, monthlyTokens }, { models }) =>
      [requestsPerMinute, concurrency, monthlyTokens].every((limit) => limit === undefined) &&
      (models?.organisations.filter(({ tier }) => tier === id) ?? []).length > 1,
    text: 'several organisations share a tier without limits, so one of them can occupy the whole pool',
    next: ({ id }) => `headgate tier set ${id} --concurrency …`,
  }),
  check({
    code: 'HG7003',
    well: 'all rows of usage are counted',
    of: ({ limits }) => limits && Object.entries(limits.usageFaults),
    level: 'fail',
    wrong: ([, count]) => count > 0,
    object: ([kind]) => kind,
    text: ([kind, count]) => `${count} rows of usage were ${kind}, and are not billed`,
    next: 'read the lines about usage rows in the log of the control plane',
  }),
  check({
    code: 'HG7005',
    well: 'counters of gateways agree with usage rows',
    of: ({ limits }) => limits?.counterDifferences,
    level: 'warn',
    object: ({ organisation }) => organisation,
    text: ({ period, counters, rows }) =>
      `in the period from ${period} gateways counted ${counters} tokens, but the usage rows contain ${rows}`,
    next: 'a data folder or rows were lost: compare with headgate usage export',
  }),
  check({
    code: 'HG7006',
    well: 'no model has a larger weight than the concurrency of its tiers',
    of: ({ limits }) => limits?.overweight,
    level: 'warn',
    object: ({ tier, model }) => `${tier}/${model}`,
    text: overweightText,
    next: overweightNext,
  }),
  check({
    code: 'HG7007',
    well: 'usage.db is not damaged',
    of: ({ limits }) => limits?.fileFaults.filter(({ differs }) => differs === undefined),
    level: 'fail',
    object: ({ object }) => object,
    text: ({ text }) => text,
    next: 'replace usage.db of this replica by a backup or the copy of another one: see docs/recover.md',
  }),
];

export const consoleChecks: readonly DoctorCheck[] = [
  check({
    code: 'HG8001',
    well: 'certificates are valid for weeks',
    of: ({ listeners }) => listeners,
    ...endingCertificate,
  }),
  check({
    code: 'HG8002',
    well: 'listeners of other machines use TLS',
    of: ({ listeners }) => listeners,
    level: 'warn',
    wrong: ({ isLoopback, daysLeft }) => !isLoopback && daysLeft === undefined,
    text: 'it listens for other machines without TLS: tokens cross the network in plain text',
    next: 'give it --tls-cert and --tls-key, or bind it to loopback behind a proxy with TLS',
  }),
];
