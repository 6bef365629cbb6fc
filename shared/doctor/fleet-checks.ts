/** Checks of gateways and nodes. */
import { type DoctorCheck, each, endingCertificates, type Finding, of, wrongClocks } from './check.ts';
import type { DoctorFacts } from './facts.ts';
import { nextOfHalted } from './halted.ts';

/** A gateway that fences accepts no key once its proof is so old. */
const fencesSeconds = 45;
const freshWarnSeconds = 20;
const silentWarnSeconds = 10;

/** What follows from a proof of this age. */
function afterwards(seconds: number, policy: Gateway['stalePolicy']): string {
  if (policy === 'serve') return 'it continues to serve (--when-stale=serve), without later revocations';
  return seconds < fencesSeconds ? `at ${fencesSeconds} s it accepts no key` : 'it accepts no key';
}

type Gateway = NonNullable<DoctorFacts['gateways']>[number];

/** Of one that other replicas remember, the silence is not known. */
function silentText({ silentSeconds }: Gateway): string {
  return silentSeconds > silentWarnSeconds
    ? `it has not reported for ${Math.round(silentSeconds)} s`
    : 'it has not reported since this replica started';
}

/** What a silent gateway is, is not known: it has ended, or its reports do not come. */
function silentNext({ name }: Gateway, log: DoctorFacts['log']): string {
  return log?.hasReports === false
    ? 'forget no gateway: its reports may be there, and this replica cannot read headgate.status (HG2012)'
    : `if it has ended, start it; if it runs, check its log and network; if it was removed: headgate gateway forget ${name}`;
}

export const gatewayChecks: readonly DoctorCheck[] = [
  {
    code: 'HG4001',
    well: 'gateways report',
    find: of('gateways', (gateways) =>
      gateways.length > 0
        ? []
        : [
            {
              level: 'warn',
              text: 'no gateway has reported: nobody is served',
              next: 'start one: headgate gateway',
            },
          ],
    ),
  },
  {
    code: 'HG4002',
    well: 'no gateway is stale',
    find: of('gateways', (gateways, { log }) =>
      each(
        gateways,
        ({ state, stalePolicy }) => state === 'STALE' && stalePolicy !== 'serve',
        'fail',
        ({ name }) => name,
        silentText,
        (gateway) => silentNext(gateway, log),
      ),
    ),
  },
  {
    code: 'HG4003',
    well: 'no silent gateway serves without proof',
    find: of('gateways', (gateways, { log }) =>
      each(
        gateways,
        ({ state, stalePolicy }) => state === 'STALE' && stalePolicy === 'serve',
        'fail',
        ({ name }) => name,
        (gateway) =>
          `${silentText(gateway)}; if it runs, it accepts keys that were revoked since (--when-stale=serve)`,
        (gateway) => silentNext(gateway, log),
      ),
    ),
  },
  {
    code: 'HG4004',
    well: 'gateways are at the end of the log',
    find: of('gateways', (gateways) =>
      each(
        gateways,
        ({ state, lagEvents }) => state === 'LAGGING' && lagEvents > 0,
        'warn',
        ({ name }) => name,
        ({ lagEvents }) => `it is ${lagEvents} ${lagEvents === 1 ? 'commit' : 'commits'} behind`,
        () => 'wait; if it stays behind, check its CPU and its log',
      ),
    ),
  },
  {
    code: 'HG4005',
    well: 'gateways have the digests of this replica',
    find: of('gateways', (gateways) =>
      each(
        gateways,
        ({ state, sameLog }) => state === 'DIVERGED' && sameLog,
        'fail',
        ({ name }) => name,
        () => 'its rows differ from those of this replica: it accepts no key from them',
        () => 'it rebuilds its state itself; headgate gateway verify names the tables',
      ),
    ),
  },
  {
    code: 'HG4006',
    well: 'gateways accept the log',
    find: of('gateways', (gateways) =>
      each(
        gateways,
        ({ fault, sameLog }) => fault !== undefined || !sameLog,
        'fail',
        ({ name }) => name,
        ({ fault }) =>
          fault === undefined ? 'it follows another log' : `it does not follow the log: ${fault}`,
        ({ fault }) => nextOfHalted(fault),
      ),
    ),
  },
  {
    code: 'HG4007',
    well: 'each gateway has a name of its own',
    find: of('gateways', (gateways) =>
      each(
        [...new Map(gateways.map((gateway) => [gateway.name, gateway])).values()],
        ({ processes }) => processes > 1,
        'fail',
        ({ name }) => name,
        ({ processes }) => `${processes} processes report under this name`,
        () => 'start each gateway with a --name of its own',
      ),
    ),
  },
  {
    code: 'HG4008',
    well: 'gateways have the fold of this replica',
    find: of('gateways', (gateways, { controlPlanes }) => {
      const own = controlPlanes?.find(({ isSelf }) => isSelf)?.foldVersion;
      return each(
        gateways,
        ({ foldVersion }) => own !== undefined && foldVersion !== own,
        'warn',
        ({ name }) => name,
        ({ foldVersion }) => `it has fold version ${foldVersion}, this replica ${own}`,
        () => 'finish the upgrade; new kinds of events wait for it',
      );
    }),
  },
  {
    code: 'HG4009',
    well: 'gateways have a margin of freshness',
    find: of('gateways', (gateways) =>
      each(
        gateways,
        ({ state, freshSeconds }) => state !== 'STALE' && (freshSeconds ?? 0) > freshWarnSeconds,
        'warn',
        ({ name }) => name,
        ({ freshSeconds, stalePolicy }) => {
          const age = freshSeconds ?? 0;
          return `its last proof is ${Math.round(age)} s old; ${afterwards(age, stalePolicy)}`;
        },
        () => 'check its log: that it is reached, and how long it takes',
      ),
    ),
  },
  {
    code: 'HG4010',
    well: 'a foreign stack and a missing one answer with the same bytes',
    find: of('probe', ({ gateway, foreign, missing }) =>
      foreign === missing
        ? []
        : [
            {
              level: 'fail',
              object: gateway,
              text: 'a stack of another organisation can be distinguished from one that is not there',
              next: 'check what is between clients and the gateway; report it if nothing is',
            },
          ],
    ),
  },
  {
    code: 'HG4011',
    well: 'clocks of gateways agree with that of this replica',
    find: of('gateways', wrongClocks),
  },
  {
    code: 'HG4012',
    well: 'certificates of gateways are valid for weeks',
    find: of('gateways', endingCertificates),
  },
  {
    code: 'HG4013',
    well: 'gateways can be asked for their decisions',
    find: of('gateways', (gateways) =>
      each(
        gateways,
        ({ isMute = false }) => isMute,
        'warn',
        ({ name }) => name,
        () => 'its metrics listener cannot be reached from this replica: explain does not find its requests',
        () =>
          'give it a --metrics-bind and --advertise by which control planes reach it, and the same gateway token and build',
      ),
    ),
  },
  {
    code: 'HG4014',
    well: 'gateways have file descriptors left',
    find: of('gateways', (gateways) =>
      each(
        gateways,
        ({ isOutOfFiles = false }) => isOutOfFiles,
        'fail',
        ({ name }) => name,
        () => 'it has no file descriptor left for connections to nodes, and refuses requests',
        () => 'raise its ulimit -n (LimitNOFILE of the service), or lower its --max-connections',
      ),
    ),
  },
];

const flapping = 6;

export const nodeChecks: readonly DoctorCheck[] = [
  {
    code: 'HG5001',
    well: 'all nodes are up',
    find: of('nodes', (nodes) =>
      each(
        nodes,
        ({ up, drained }) => !up && !drained,
        'fail',
        ({ id }) => id,
        ({ reason }) => `the node is down${reason === undefined ? '' : `: ${reason}`}`,
        ({ id }) => `start its engine; headgate node get ${id}`,
      ),
    ),
  },
  {
    code: 'HG5002',
    well: 'no node flaps',
    find: of('nodes', (nodes) =>
      each(
        nodes,
        ({ changesLastHour = 0 }) => changesLastHour >= flapping,
        'warn',
        ({ id }) => id,
        ({ changesLastHour }) => `its health changed ${changesLastHour} times in the last hour`,
        ({ id }) => `headgate events list --newest --node ${id}`,
      ),
    ),
  },
  {
    code: 'HG5003',
    well: 'each node has a replica that watches it',
    find: of('nodes', (nodes, { controlPlanes }) =>
      each(
        nodes,
        ({ owner }) =>
          controlPlanes !== undefined &&
          !controlPlanes.some(
            ({ name, silentSeconds }) => name === owner && silentSeconds <= silentWarnSeconds,
          ),
        'fail',
        ({ id }) => id,
        ({ owner }) =>
          owner === undefined ? 'no replica watches it' : `the replica ${owner}, which watches it, is silent`,
        () => 'another replica takes it over within seconds; if none does, see its log',
      ),
    ),
  },
  {
    code: 'HG5004',
    well: 'agents have loaded what they were asked to',
    find: of('nodes', (nodes) =>
      nodes.flatMap(({ id, failedLoads }) =>
        failedLoads.map(
          ({ model, reason }): Finding => ({
            level: 'fail',
            object: id,
            text: `it could not load ${model}${reason === undefined ? '' : `: ${reason}`}`,
            next: `headgate node get ${id}, then the log of its engine`,
          }),
        ),
      ),
    ),
  },
  {
    code: 'HG5005',
    well: 'nodes report no more tokens than requests can use',
    find: of('nodes', (nodes) =>
      each(
        nodes,
        ({ overstatedTo = [] }) => overstatedTo.length > 0,
        'warn',
        ({ id }) => id,
        ({ overstatedTo = [] }) =>
          `it reported more tokens than a request can use (${overstatedTo.join(', ')}); less was billed`,
        ({ id }) => `see who runs ${id} and which engine it is; headgate node drain ${id}`,
      ),
    ),
  },
  {
    code: 'HG5006',
    well: 'the log takes what nodes report',
    find: of('nodes', (nodes) =>
      each(
        nodes,
        ({ withheld }) => withheld === true,
        'warn',
        ({ id }) => id,
        () => 'it reported more than the log takes of one node a day: changes of its models are withheld',
        ({ id }) =>
          `headgate events list --newest --node ${id}; if its agent is not to be trusted, revoke its token`,
      ),
    ),
  },
];
