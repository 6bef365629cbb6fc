/** Checks of models, tiers, organisations and keys, of limits, and of listeners. */
import { type DoctorCheck, each, endingCertificates, type Finding, of, when } from './check.ts';
import type { DoctorFacts } from './facts.ts';

const keyWarnDays = 7;
/** Authors of commits that are no person; so is what has a colon. */
const noPersons: readonly string[] = ['operator', 'restore', 'checkpoint'];

/** A model at a place as one text. */
const at = (place: string, model: string): string => `${place}/${model}`;

/** What nodes that serve have loaded. */
function loadedOf({ nodes = [] }: DoctorFacts): Set<string> {
  const serving = nodes.filter(({ up, drained }) => up && !drained);
  return new Set(serving.flatMap(({ place, models }) => models.map((model) => at(place, model))));
}

export const modelChecks: readonly DoctorCheck[] = [
  {
    code: 'HG6001',
    well: 'what is installed is loaded somewhere',
    find: (facts) =>
      facts.nodes === undefined
        ? undefined
        : of('models', ({ installs }) => {
            const loaded = loadedOf(facts);
            return each(
              installs,
              ({ place, model }) => !loaded.has(at(place, model)),
              'fail',
              ({ place, model }) => at(place, model),
              () => 'installed, and no node that serves now has it loaded: requests get 503',
              () => 'load it on a node, undrain one, or uninstall it',
            );
          })(facts),
  },
  {
    code: 'HG6002',
    well: 'what nodes have loaded is installed',
    find: of('models', ({ installs, catalog }, { nodes = [] }) => {
      const installed = new Set(installs.map(({ place, model }) => at(place, model)));
      const known = new Set(catalog);
      return nodes
        .filter(({ place, up }) => up && !place.startsWith('organisation:'))
        .flatMap(({ id, place, models }) =>
          models
            .filter((model) => known.has(model) && !installed.has(at(place, model)))
            .map(
              (model): Finding => ({
                level: 'warn',
                object: `${id}/${model}`,
                text: `loaded, and not installed on ${place}: nobody is served by it`,
                next:
                  place === 'pool'
                    ? `headgate pool install ${model}`
                    : `headgate stack install ${place.slice(6)} ${model}`,
              }),
            ),
        );
    }),
  },
  {
    code: 'HG6003',
    well: 'models of the pool are in a tier',
    find: of('models', ({ installs, tiers, anonymousModels }) => {
      const offered = [...tiers.map(({ models }) => models), anonymousModels ?? []];
      const inTier = (model: string): boolean =>
        offered.some((models) => models === '*' || models.includes(model));
      return each(
        installs,
        ({ place, model }) => place === 'pool' && !inTier(model),
        'warn',
        ({ model }) => model,
        () => 'installed on the pool, and no tier includes it',
        () => 'add it to a tier: headgate tier set',
      );
    }),
  },
  {
    code: 'HG6004',
    well: 'tiers include models',
    find: of('models', ({ tiers }) =>
      each(
        tiers,
        ({ models }) => models !== '*' && models.length === 0,
        'warn',
        ({ id }) => id,
        () => 'the tier includes no model',
        ({ id }) => `headgate tier set ${id} --models …`,
      ),
    ),
  },
  {
    code: 'HG6005',
    well: 'organisations with keys are on a tier',
    find: of('models', ({ organisations, tiers }) =>
      each(
        organisations,
        ({ tier, activeKeys }) => activeKeys > 0 && !tiers.some(({ id }) => id === tier),
        'warn',
        ({ id }) => id,
        ({ tier, activeKeys }) =>
          `it has ${activeKeys} active keys and ${tier === null ? 'no tier' : `a tier that is not there, ${tier}`}`,
        ({ id }) => `headgate org set ${id} --tier …`,
      ),
    ),
  },
  {
    code: 'HG6006',
    well: 'no key expires within a week',
    find: of('models', ({ keys }) =>
      each(
        keys,
        ({ expiresInDays: days }) => days !== null && days >= 0 && days < keyWarnDays,
        'warn',
        ({ id }) => id,
        ({ organisation, expiresInDays }) =>
          `a key of ${organisation} expires in ${Math.floor(expiresInDays ?? 0)} days`,
        ({ organisation }) => `headgate key create --org ${organisation}, then replace it`,
      ),
    ),
  },
  {
    code: 'HG6007',
    well: 'keys belong to people who are still members',
    find: of('models', ({ keys, organisations }) => {
      const people = new Map(organisations.map(({ id, people: members }) => [id, members]));
      return each(
        keys,
        ({ organisation, createdBy }) =>
          !noPersons.includes(createdBy) &&
          !createdBy.includes(':') &&
          people.get(organisation)?.includes(createdBy) === false,
        'warn',
        ({ id }) => id,
        ({ organisation, createdBy }) => `made by ${createdBy}, who is no member of ${organisation} any more`,
        ({ id }) => `headgate key revoke ${id}, or keep it on purpose: --skip models`,
      );
    }),
  },
  {
    code: 'HG6008',
    well: 'tiers name models of the catalog',
    find: of('models', ({ tiers, catalog }) =>
      tiers.flatMap(({ id, models }) =>
        (models === '*' ? [] : models)
          .filter((model) => !catalog.includes(model))
          .map(
            (model): Finding => ({
              level: 'warn',
              object: id,
              text: `the tier includes ${model}, which is not in the catalog`,
              next: `headgate model set ${model}, or remove it from the tier`,
            }),
          ),
      ),
    ),
  },
];

export const limitChecks: readonly DoctorCheck[] = [
  {
    code: 'HG7001',
    well: 'totals of usage are those of the rows',
    find: of('limits', ({ differing }) =>
      each(
        differing,
        () => true,
        'fail',
        ({ organisation }) => organisation,
        ({ day, counted, rows }) =>
          `on ${day} ${counted} requests are counted, and ${rows} rows are kept for billing`,
        () => 'compare with another replica; restore usage.db of the one that differs, see docs/operate.md',
      ),
    ),
  },
  {
    code: 'HG7002',
    well: 'tiers of organisations have limits',
    find: of('models', ({ organisations, tiers }, { limits }) =>
      each(
        tiers,
        ({ id }) =>
          limits?.unlimitedTiers.includes(id) === true &&
          organisations.filter(({ tier }) => tier === id).length > 1,
        'warn',
        ({ id }) => id,
        () => 'several organisations share a tier without any limit: one of them can take all of the pool',
        ({ id }) => `headgate tier set ${id} --concurrency …`,
      ),
    ),
  },
  {
    code: 'HG7003',
    well: 'all rows of usage are counted',
    find: of('limits', ({ usageFaults }) =>
      each(
        Object.entries(usageFaults),
        ([, count]) => count > 0,
        'fail',
        ([kind]) => kind,
        ([kind, count]) => `${count} rows of usage were ${kind}, and are not billed`,
        () => 'see the log of the control plane: usage rows',
      ),
    ),
  },
  {
    code: 'HG7004',
    well: 'usage without a MAC does not count',
    find: of('limits', ({ acceptsUnsigned }) =>
      when(
        acceptsUnsigned,
        'warn',
        'usage without a MAC counts: everybody who can write to headgate.usage can bill, and use up allowances',
        'once all gateways are upgraded, start the control planes without --accept-unsigned-usage',
      ),
    ),
  },
  {
    code: 'HG7005',
    well: 'the counters of the gateways are those of the rows of usage',
    find: of('limits', ({ counterDifferences }) =>
      each(
        counterDifferences,
        () => true,
        'warn',
        ({ organisation }) => organisation,
        ({ period, counters, rows }) =>
          `in the period from ${period} gateways counted ${counters} tokens, and the rows of usage have ${rows}`,
        () => 'a data folder was lost, or rows were: compare with headgate usage export',
      ),
    ),
  },
  {
    code: 'HG7006',
    well: 'no model counts as more than a tier carries in flight',
    find: of('limits', ({ overweight }) =>
      each(
        overweight,
        () => true,
        'warn',
        ({ tier, model }) => `${tier}/${model}`,
        ({ text }) => text,
        ({ next }) => next,
      ),
    ),
  },
  {
    code: 'HG7007',
    well: 'usage.db is not damaged',
    find: of('limits', ({ unreadable = [] }) =>
      unreadable.map(
        ({ object, text }): Finding => ({
          level: 'fail',
          object,
          text,
          next: 'replace usage.db of this replica by a backup or the copy of another one: see docs/operate.md',
        }),
      ),
    ),
  },
];

export const consoleChecks: readonly DoctorCheck[] = [
  {
    code: 'HG8001',
    well: 'certificates are valid for weeks',
    find: of('listeners', endingCertificates),
  },
  {
    code: 'HG8002',
    well: 'listeners of other machines use TLS',
    find: of('listeners', (listeners) =>
      each(
        listeners,
        ({ isLoopback, daysLeft }) => !isLoopback && daysLeft === undefined,
        'warn',
        ({ name }) => name,
        () => 'it listens for other machines without TLS: tokens cross the network in plain text',
        () => 'give it --tls-cert and --tls-key, or bind it to loopback behind a proxy with TLS',
      ),
    ),
  },
];
