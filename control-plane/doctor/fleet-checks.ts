/** `doctor` checks for gateways and nodes. */
import { check, type DoctorCheck, defineChecks, endingCertificate, only, wrongClock } from './check.ts';
import type { DoctorFacts } from './facts.ts';
import { nextOfHalted } from './halted.ts';
import { hasOtherFold, otherFoldText } from './machine-checks.ts';

/** Age in seconds of a gateway's freshness proof at which it stops accepting keys, unless its policy is `serve`. */
const fencesSeconds = 45;
const freshWarnSeconds = 20;
const silentWarnSeconds = 10;
/** Clock difference in seconds that counts as a failure. It is too large for drift, and keys expire at the wrong time. */
const clockFailSeconds = 3600;

/** Describes what happens to a gateway whose freshness proof has this age. */
function afterwards(seconds: number, policy: Gateway['stalePolicy']): string {
  if (policy === 'serve')
    return 'it continues to serve (--when-stale=serve), but does not know of later revocations';
  return seconds < fencesSeconds ? `at ${fencesSeconds} s it stops accepting keys` : 'it accepts no keys';
}

type Gateway = NonNullable<DoctorFacts['gateways']>[number];

/** Describes a gateway's silence. The length is not known if only other replicas remember the gateway. */
function silentText({ silentSeconds }: Gateway): string {
  return silentSeconds > silentWarnSeconds
    ? `it has not reported for ${Math.round(silentSeconds)} s`
    : 'it has not reported since this replica started';
}

/** Next step for a silent gateway. It may have stopped, or it may be running although its reports do not arrive. */
function silentNext({ name }: Gateway): string {
  return `if it has ended, start it; if it runs, check its log and network; if it was removed: headgate gateway forget ${name}`;
}

const ofGateways = defineChecks(({ gateways }) => gateways);
/** Builds checks that are skipped while this replica cannot read reports (HG2012), because silence then proves nothing. */
const ofReadGateways = defineChecks(({ gateways, log }) =>
  log?.hasReports === false ? undefined : gateways,
);
export const gatewayChecks: readonly DoctorCheck[] = [
  check({
    code: 'HG4001',
    well: 'gateways report',
    of: ({ gateways }) => only(gateways),
    level: 'warn',
    wrong: (gateways) => gateways.length === 0,
    text: 'no gateway has reported, so no request is served',
    next: 'start one: headgate gateway',
  }),
  ofReadGateways({
    code: 'HG4002',
    well: 'no gateway is stale',
    level: 'fail',
    wrong: ({ state, stalePolicy }) => state === 'STALE' && stalePolicy !== 'serve',
    text: silentText,
    next: silentNext,
  }),
  ofReadGateways({
    code: 'HG4003',
    well: 'no silent gateway serves without proof',
    level: 'fail',
    wrong: ({ state, stalePolicy }) => state === 'STALE' && stalePolicy === 'serve',
    text: (gateway) =>
      `${silentText(gateway)}; if it runs, it accepts keys that were revoked since (--when-stale=serve)`,
    next: silentNext,
  }),
  ofGateways({
    code: 'HG4004',
    well: 'gateways are at the end of the log',
    level: 'warn',
    wrong: ({ state, lagEvents }) => state === 'LAGGING' && lagEvents > 0,
    text: ({ lagEvents }) => `it is ${lagEvents} ${lagEvents === 1 ? 'commit' : 'commits'} behind`,
    next: 'wait; if it stays behind, check its CPU and its log',
  }),
  ofGateways({
    code: 'HG4005',
    well: 'gateways have the digests of this replica',
    level: 'fail',
    wrong: ({ state, sameLog }) => state === 'DIVERGED' && sameLog,
    text: 'its rows differ from those of this replica, so it accepts no keys',
    next: 'wait: it rebuilds its state automatically; headgate gateway verify names the tables',
  }),
  ofGateways({
    code: 'HG4006',
    well: 'gateways accept the log',
    level: 'fail',
    wrong: ({ fault, sameLog }) => fault !== undefined || !sameLog,
    text: ({ fault }) =>
      fault === undefined ? 'it follows another log' : `it does not follow the log: ${fault}`,
    next: ({ fault }) => nextOfHalted(fault),
  }),
  check({
    code: 'HG4007',
    well: 'each gateway has its own name',
    of: ({ gateways }) =>
      gateways && [...new Map(gateways.map((gateway) => [gateway.name, gateway])).values()],
    level: 'fail',
    wrong: ({ processes }) => processes > 1,
    text: ({ processes }) => `${processes} processes report under this name`,
    next: 'give each gateway its own --name',
  }),
  ofGateways({
    code: 'HG4008',
    well: 'gateways have the fold version of this replica',
    level: 'warn',
    wrong: hasOtherFold,
    text: otherFoldText,
    next: 'finish the upgrade; new kinds of events wait for it',
  }),
  ofGateways({
    code: 'HG4009',
    well: 'gateways have a margin of freshness',
    level: 'warn',
    wrong: ({ state, freshSeconds }) => state !== 'STALE' && (freshSeconds ?? 0) > freshWarnSeconds,
    text: ({ freshSeconds, stalePolicy }) => {
      const age = freshSeconds ?? 0;
      return `its last proof is ${Math.round(age)} s old; ${afterwards(age, stalePolicy)}`;
    },
    next: 'check that it reaches its log, and how long the log takes to answer',
  }),
  check({
    code: 'HG4010',
    well: 'a foreign stack and a missing one answer with the same bytes',
    of: ({ probe }) => only(probe),
    level: 'fail',
    wrong: ({ foreign, missing }) => foreign !== missing,
    object: ({ gateway }) => gateway,
    text: 'the stack of another organisation gets a different answer from a stack that does not exist',
    next: 'check the proxies between clients and the gateway; if there are none, report this fault',
  }),
  ofGateways({
    code: 'HG4011',
    well: 'clocks of gateways agree with that of this replica',
    ...wrongClock,
    level: ({ clockAheadSeconds = 0 }) => (Math.abs(clockAheadSeconds) > clockFailSeconds ? 'fail' : 'warn'),
  }),
  ofGateways({
    code: 'HG4012',
    well: 'certificates of gateways are valid for weeks',
    ...endingCertificate,
  }),
  ofGateways({
    code: 'HG4013',
    well: 'gateways can be asked for their decisions',
    level: 'warn',
    wrong: ({ isMute = false }) => isMute,
    text: 'its metrics listener cannot be reached from this replica: explain does not find its requests',
    next: 'set its --metrics-bind and --advertise so that control planes reach it, and use the same gateway token and build',
  }),
  ofGateways({
    code: 'HG4014',
    well: 'gateways have file descriptors left',
    level: 'fail',
    wrong: ({ isOutOfFiles = false }) => isOutOfFiles,
    text: 'it has no file descriptor left for connections to nodes, and refuses requests',
    next: 'raise its ulimit -n (LimitNOFILE of the service), or lower its --max-connections',
  }),
];

const flapping = 6;

const ofNodes = defineChecks(({ nodes }) => nodes);
export const nodeChecks: readonly DoctorCheck[] = [
  ofNodes({
    code: 'HG5001',
    well: 'all nodes are up',
    level: 'fail',
    wrong: ({ up, drained }) => !up && !drained,
    text: ({ reason }) => `the node is down${reason === undefined ? '' : `: ${reason}`}`,
    next: ({ id }) => `start its engine; headgate node get ${id}`,
  }),
  ofNodes({
    code: 'HG5002',
    well: 'no node flaps',
    level: 'warn',
    wrong: ({ changesLastHour = 0 }) => changesLastHour >= flapping,
    text: ({ changesLastHour }) => `its health changed ${changesLastHour} times in the last hour`,
    next: ({ id }) => `headgate events list --newest --node ${id}`,
  }),
  ofNodes({
    code: 'HG5003',
    well: 'a replica watches each node',
    level: 'fail',
    wrong: ({ owner }, { controlPlanes, log }) =>
      controlPlanes !== undefined &&
      log?.hasReports !== false &&
      !controlPlanes.some(({ name, silentSeconds }) => name === owner && silentSeconds <= silentWarnSeconds),
    text: ({ owner }) =>
      owner === undefined ? 'no replica watches it' : `the replica ${owner}, which watches it, is silent`,
    next: 'wait: another replica takes it over within seconds; if none does, read the logs of the control planes',
  }),
  check({
    code: 'HG5004',
    well: 'agents have loaded the installed models',
    of: ({ nodes }) => nodes?.flatMap(({ id, failedLoads }) => failedLoads.map((load) => ({ id, ...load }))),
    level: 'fail',
    text: ({ model, reason }) => `it could not load ${model}${reason === undefined ? '' : `: ${reason}`}`,
    next: ({ id }) => `headgate node get ${id}, then the log of its engine`,
  }),
  ofNodes({
    code: 'HG5005',
    well: 'nodes report no more tokens than requests can use',
    level: 'warn',
    wrong: ({ overstatedTo = [] }) => overstatedTo.length > 0,
    text: ({ overstatedTo = [] }) =>
      `it reported more tokens than a request can use (${overstatedTo.join(', ')}); less was billed`,
    next: ({ id }) =>
      `find out which engine answers as ${id}; if you cannot trust it: headgate node drain ${id}`,
  }),
  ofNodes({
    code: 'HG5006',
    well: 'the log accepts the reports of nodes',
    level: 'warn',
    wrong: ({ withheld }) => withheld === true,
    text: 'it reported more in a day than the log accepts from one node, so changes of its models are withheld',
    next: ({ id }) =>
      `headgate events list --newest --node ${id}; if its agent is not to be trusted, revoke its token`,
  }),
  ofNodes({
    code: 'HG5007',
    well: 'nodes answer their requests',
    level: 'warn',
    wrong: ({ unansweredAt = [], up, drained }) => up && !drained && unansweredAt.length > 0,
    text: ({ unansweredAt = [] }) =>
      `it passes its health checks, but has answered none of the latest requests of ${unansweredAt.join(', ')}`,
    next: ({ id }) => `read the log of its engine and restart it; meanwhile headgate node drain ${id}`,
  }),
  ofNodes({
    code: 'HG5008',
    well: 'nodes answer in known forms',
    level: 'warn',
    wrong: ({ oddForms = [] }) => oddForms.length > 0,
    text: ({ oddForms = [] }) => `answers in an unknown form: ${oddForms.join('; ')}`,
    next: ({ id }) => `compare the engine of ${id} with those that are tested, and update it`,
  }),
];
