/** Checks of the machine and the control planes. */
import { type DoctorCheck, each, of, when, wrongClocks } from './check.ts';
import { nextOfHalted } from './halted.ts';

const gigabyte = 1024 ** 3;
export const diskFail = gigabyte;
export const diskWarn = 5 * gigabyte;
const openFilesMin = 4096;
/** Node releases and the end of their maintenance. */
const endOfLife: Readonly<Record<number, string>> = { 20: '2026-04-30', 22: '2027-04-30', 24: '2028-04-30' };
export const gigabytes = (bytes: number): string => `${(bytes / gigabyte).toFixed(1)} GB`;

export const machineChecks: readonly DoctorCheck[] = [
  {
    code: 'HG1001',
    well: 'the version of Node is supported',
    find: of('machine', ({ node }) => {
      const [major = 0, minor = 0, patch = 0] = node.split('.').map(Number);
      const isOld = major < 20 || (major === 20 && (minor < 18 || (minor === 18 && patch < 1)));
      return when(isOld, 'fail', `Node ${node} is too old`, 'install Node 22 or 24');
    }),
  },
  {
    code: 'HG1002',
    well: 'the SQLite module loads',
    find: of('machine', ({ sqliteFault }) =>
      when(sqliteFault !== undefined, 'fail', `SQLite cannot be used: ${sqliteFault}`, 'run npm ci again'),
    ),
  },
  {
    code: 'HG1003',
    well: 'the disk has room',
    find: of('machine', ({ diskFreeBytes: free = Number.POSITIVE_INFINITY }) =>
      when(
        free < diskWarn,
        free < diskFail ? 'fail' : 'warn',
        `the disk of this machine has ${gigabytes(free)} left`,
        'free some disk space, or move the data folder',
      ),
    ),
  },
  {
    code: 'HG1004',
    well: 'enough files may be open',
    find: of('machine', ({ openFilesMax: max = Number.POSITIVE_INFINITY }) =>
      when(
        max < openFilesMin,
        'warn',
        `a process may open ${max} files, which limits its connections`,
        `raise it with ulimit -n ${openFilesMin * 4}, or LimitNOFILE of the service`,
      ),
    ),
  },
  {
    code: 'HG1005',
    well: 'secrets are readable by their owner only',
    find: of('machine', ({ readableSecrets = [] }) =>
      each(
        readableSecrets,
        () => true,
        'fail',
        (path) => path,
        () => 'others on this machine can read this secret',
        (path) => `chmod 600 ${path}`,
      ),
    ),
  },
  {
    code: 'HG1006',
    well: 'data folders can be written',
    find: of('machine', ({ unwritable = [] }) =>
      each(
        unwritable,
        () => true,
        'fail',
        (path) => path,
        () => 'this folder cannot be written, or not be made',
        (path) => `chown it to the user of the process: ${path}`,
      ),
    ),
  },
  {
    code: 'HG1007',
    well: 'the release of Node is maintained',
    find: of('machine', ({ node }, { now = Date.now() }) => {
      const major = Number(node.split('.', 1)[0]);
      const end = endOfLife[major];
      return when(
        major >= 20 && end !== undefined && now > Date.parse(end) + graceMs,
        'warn',
        `Node ${major} is maintained no longer since ${end}`,
        'install Node 24',
      );
    }),
  },
  {
    code: 'HG1008',
    well: 'ports are free',
    find: ({ machine }) =>
      machine?.takenPorts &&
      each(
        machine.takenPorts,
        () => true,
        'warn',
        (port) => String(port),
        () => 'another process listens on this port',
        () =>
          'end that process, or give another port with --port, --metrics-port, --console-port or --play-port',
      ),
  },
  {
    code: 'HG1009',
    well: 'files of the data folder are within their bounds',
    find: of('machine', ({ overgrown = [] }) =>
      each(
        overgrown,
        () => true,
        'warn',
        ({ name }) => name,
        ({ bytes }) => `this file has ${gigabytes(bytes)}, more than it needs`,
        () => 'look for another program that has it open, and restart the process',
      ),
    ),
  },
  {
    code: 'HG1010',
    well: 'the data folder is closed to others',
    find: of('machine', ({ openToOthers = [] }) =>
      each(
        openToOthers,
        () => true,
        'warn',
        (path) => path,
        () => 'others on this machine have access to what it holds',
        (path) => `chmod go-rwx ${path}; a process does so at its start with what it owns`,
      ),
    ),
  },
];

/** A year in which an old release is no finding: quiet when well. */
const graceMs = 365 * 86_400_000;

const silentWarnSeconds = 10;

export const controlPlaneChecks: readonly DoctorCheck[] = [
  {
    code: 'HG3001',
    well: 'all control planes report',
    find: of('controlPlanes', (planes) =>
      each(
        planes,
        ({ silentSeconds }) => silentSeconds > silentWarnSeconds,
        'warn',
        ({ name }) => name,
        ({ silentSeconds }) => `this replica has not reported for ${Math.round(silentSeconds)} s`,
        () => 'start it again; ten minutes after its last report it is left out',
      ),
    ),
  },
  {
    code: 'HG3002',
    well: 'control planes have equal digests at equal positions',
    find: of('controlPlanes', (planes) =>
      each(
        planes,
        ({ isDiverged }) => isDiverged,
        'fail',
        ({ name }) => name,
        ({ position }) => `at position ${position} its digest is not that of this replica`,
        () => 'stop it, delete its state.db and start it again',
      ),
    ),
  },
  {
    code: 'HG3003',
    well: 'control planes have one version of the fold',
    find: of('controlPlanes', (planes) => {
      const own = planes.find(({ isSelf }) => isSelf)?.foldVersion;
      return each(
        planes,
        ({ foldVersion }) => own !== undefined && foldVersion !== own,
        'warn',
        ({ name }) => name,
        ({ foldVersion }) => `it has fold version ${foldVersion}, this replica ${own}`,
        () => 'finish the upgrade: digests of different versions are not compared',
      );
    }),
  },
  {
    code: 'HG3004',
    well: 'control planes follow one log',
    find: of('controlPlanes', (planes) =>
      each(
        planes,
        ({ sameLog }) => !sameLog,
        'fail',
        ({ name }) => name,
        () => 'it follows another log than this replica',
        () => 'give all replicas the same HEADGATE_LOG',
      ),
    ),
  },
  {
    code: 'HG3005',
    well: 'control planes follow the log',
    find: of('controlPlanes', (planes) =>
      each(
        planes,
        ({ fault, isSelf }) => fault !== undefined && !isSelf,
        'fail',
        ({ name }) => name,
        ({ fault }) => `it does not follow the log: ${fault}`,
        ({ fault }) => nextOfHalted(fault),
      ),
    ),
  },
  {
    code: 'HG3006',
    well: 'clocks of control planes agree',
    find: of('controlPlanes', wrongClocks),
  },
];
