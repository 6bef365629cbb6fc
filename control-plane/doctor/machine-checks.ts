/** `doctor` checks for the machine and the control planes. */
import { check, type DoctorCheck, defineChecks, only, wrongClock } from './check.ts';
import type { DoctorFacts } from './facts.ts';
import { nextOfHalted } from './halted.ts';

const gigabyte = 1024 ** 3;
export const diskFail = gigabyte;
export const diskWarn = 5 * gigabyte;
const openFilesMin = 4096;
/** Node releases, with the dates on which their maintenance ends. */
const endOfLife: Readonly<Record<number, string>> = { 20: '2026-04-30', 22: '2027-04-30', 24: '2028-04-30' };
export const gigabytes = (bytes: number): string => `${(bytes / gigabyte).toFixed(1)} GB`;

const ofMachine = defineChecks(({ machine }) => only(machine));
export const machineChecks: readonly DoctorCheck[] = [
  ofMachine({
    code: 'HG1001',
    well: 'the version of Node is supported',
    level: 'fail',
    wrong: ({ node }) => {
      const [major = 0, minor = 0, patch = 0] = node.split('.').map(Number);
      return major < 20 || (major === 20 && (minor < 18 || (minor === 18 && patch < 1)));
    },
    text: ({ node }) => `Node ${node} is too old`,
    next: 'install Node 22 or 24',
  }),
  ofMachine({
    code: 'HG1002',
    well: 'the SQLite module loads',
    level: 'fail',
    wrong: ({ sqliteFault }) => sqliteFault !== undefined,
    text: ({ sqliteFault }) => `SQLite cannot be used: ${sqliteFault}`,
    next: 'run npm ci again',
  }),
  ofMachine({
    code: 'HG1003',
    well: 'the disk has room',
    level: ({ diskFreeBytes: free = Number.POSITIVE_INFINITY }) => (free < diskFail ? 'fail' : 'warn'),
    wrong: ({ diskFreeBytes: free = Number.POSITIVE_INFINITY }) => free < diskWarn,
    text: ({ diskFreeBytes: free = Number.POSITIVE_INFINITY }) =>
      `the disk of this machine has ${gigabytes(free)} left`,
    next: 'free some disk space, or move the data folder',
  }),
  ofMachine({
    code: 'HG1004',
    well: 'the limit on open files is high enough',
    level: 'warn',
    wrong: ({ openFilesMax: max = Number.POSITIVE_INFINITY }) => max < openFilesMin,
    text: ({ openFilesMax: max = Number.POSITIVE_INFINITY }) =>
      `a process may open ${max} files, which limits its connections`,
    next: () => `raise it with ulimit -n ${openFilesMin * 4}, or LimitNOFILE of the service`,
  }),
  check({
    code: 'HG1005',
    well: 'secrets are readable by their owner only',
    of: ({ machine }) => machine && (machine.readableSecrets ?? []),
    level: 'fail',
    text: 'others on this machine can read this secret',
    next: (path) => `chmod 600 ${path}`,
  }),
  check({
    code: 'HG1006',
    well: 'data folders can be written',
    of: ({ machine }) => machine && (machine.unwritable ?? []),
    level: 'fail',
    text: 'this folder cannot be created or written',
    next: (path) => `make the user of the process its owner: chown USER ${path}`,
  }),
  check({
    code: 'HG1007',
    well: 'the release of Node is maintained',
    of: ({ machine }) => machine && [Number(machine.node.split('.', 1)[0])],
    level: 'warn',
    wrong: (major, { now = 0 }) => {
      const end = endOfLife[major];
      return major >= 20 && end !== undefined && now > Date.parse(end) + graceMs;
    },
    text: (major) => `Node ${major} has not been maintained since ${endOfLife[major]}`,
    next: 'install Node 24',
  }),
  check({
    code: 'HG1008',
    well: 'ports are free',
    of: ({ machine }) => machine?.takenPorts,
    level: 'warn',
    object: String,
    text: 'another process listens on this port',
    next: 'stop that process, or choose another port with --port, --metrics-port, --console-port or --play-port',
  }),
  check({
    code: 'HG1009',
    well: 'files of the data folder are within their bounds',
    of: ({ machine }) => machine && (machine.overgrown ?? []),
    level: 'warn',
    text: ({ bytes }) => `this file takes ${gigabytes(bytes)}, more than it should`,
    next: 'stop other programs that have it open, then restart the process',
  }),
  check({
    code: 'HG1010',
    well: 'the data folder is closed to others',
    of: ({ machine }) => machine && (machine.openToOthers ?? []),
    level: 'warn',
    text: 'other users of this machine have access to it',
    next: (path) => `chmod go-rwx ${path}; a process also corrects this when it starts`,
  }),
];

/** Time in ms from the end of a release's maintenance to the warning, so that `doctor` does not warn too early. */
const graceMs = 365 * 86_400_000;

const silentWarnSeconds = 10;

interface Folds {
  readonly foldVersion: number;
}

function ownFold({ controlPlanes }: DoctorFacts): number | undefined {
  return controlPlanes?.find(({ isSelf }) => isSelf)?.foldVersion;
}

export function hasOtherFold({ foldVersion }: Folds, facts: DoctorFacts): boolean {
  const own = ownFold(facts);
  return own !== undefined && foldVersion !== own;
}

export function otherFoldText({ foldVersion }: Folds, facts: DoctorFacts): string {
  return `it has fold version ${foldVersion}, but this replica has ${ownFold(facts)}`;
}

const ofControlPlanes = defineChecks(({ controlPlanes }) => controlPlanes);
export const controlPlaneChecks: readonly DoctorCheck[] = [
  ofControlPlanes({
    code: 'HG3001',
    well: 'all control planes report',
    level: 'warn',
    wrong: ({ silentSeconds }, { log }) => log?.hasReports !== false && silentSeconds > silentWarnSeconds,
    text: ({ silentSeconds }) => `this replica has not reported for ${Math.round(silentSeconds)} s`,
    next: 'start it again; ten minutes after its last report it is no longer listed',
  }),
  ofControlPlanes({
    code: 'HG3002',
    well: 'control planes have equal digests at equal positions',
    level: 'fail',
    wrong: ({ isDiverged }) => isDiverged,
    text: ({ position }) => `at position ${position} its digest differs from the clock of this replica`,
    next: 'stop it, delete its state.db and start it again',
  }),
  ofControlPlanes({
    code: 'HG3003',
    well: 'control planes have the same fold version',
    level: 'warn',
    wrong: hasOtherFold,
    text: otherFoldText,
    next: 'finish the upgrade: digests of different versions are not compared',
  }),
  ofControlPlanes({
    code: 'HG3004',
    well: 'control planes follow the same log',
    level: 'fail',
    wrong: ({ sameLog }) => !sameLog,
    text: 'it follows another log than this replica',
    next: 'give all replicas the same HEADGATE_LOG',
  }),
  ofControlPlanes({
    code: 'HG3005',
    well: 'control planes follow the log',
    level: 'fail',
    wrong: ({ fault, isSelf }) => fault !== undefined && !isSelf,
    text: ({ fault }) => `it does not follow the log: ${fault}`,
    next: ({ fault }) => nextOfHalted(fault),
  }),
  ofControlPlanes({
    code: 'HG3006',
    well: 'clocks of control planes agree',
    ...wrongClock,
  }),
];
