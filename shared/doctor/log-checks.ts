/** Checks of the log and its topics. */
import { type DoctorCheck, each, type Finding, of, when } from './check.ts';
import { diskFail, diskWarn, gigabytes } from './machine-checks.ts';

const freshWarnSeconds = 10;

export const logChecks: readonly DoctorCheck[] = [
  {
    code: 'HG2001',
    well: 'the log is reachable',
    find: of('log', ({ reachable, reason }) =>
      when(
        !reachable,
        'fail',
        `the control log cannot be reached${reason === undefined ? '' : `: ${reason}`}`,
        'check the brokers, or the folder of HEADGATE_LOG',
      ),
    ),
  },
  {
    code: 'HG2002',
    well: 'the fold continues',
    find: of('log', ({ fault }) =>
      when(
        fault !== undefined,
        'fail',
        `the log is not followed any more: ${fault}`,
        'see docs/operate.md for recovery',
      ),
    ),
  },
  {
    code: 'HG2003',
    well: 'the state is proven fresh',
    find: of('log', ({ freshSeconds: age, reachable }) =>
      when(
        reachable && (age === null || age > freshWarnSeconds),
        'warn',
        age === null
          ? 'the state was never proven fresh'
          : `the last proof of freshness is ${Math.round(age)} s old`,
        'check the latency of the log and the load of this replica',
      ),
    ),
  },
  {
    code: 'HG2004',
    well: 'every record of the log counts',
    find: of('log', ({ skipped }) =>
      when(
        skipped > 1000,
        'warn',
        `${skipped} records in the log do not extend the chain: something else writes to the topic`,
        'restrict who may write to headgate.control',
      ),
    ),
  },
  {
    code: 'HG2005',
    well: 'all control planes may sign the log',
    find: of('controlPlanes', (planes, { log }) =>
      each(
        planes,
        ({ maySign }) => log?.isSigned === true && !maySign,
        'fail',
        ({ name }) => name,
        () => 'the log is signed, and this replica has no key of a signer: its commands are refused',
        () => 'headgate signer add PUBLIC-KEY-FILE, then give the replica the key with HEADGATE_SIGNING_KEY',
      ),
    ),
  },
  {
    code: 'HG2006',
    well: 'the state agrees with the checkpoints of the log',
    find: of('log', ({ divergedAt }) =>
      when(
        divergedAt !== undefined,
        'fail',
        `the state differs from the checkpoint at ${divergedAt}`,
        'stop this replica, delete its state.db and start it again',
      ),
    ),
  },
  {
    code: 'HG2007',
    well: 'the history is complete',
    find: of('log', ({ history, position }) =>
      when(
        history !== undefined && (history.fault !== undefined || position - history.position > 1000),
        'warn',
        history?.fault === undefined
          ? `the history has ${history?.position} of ${position} commits: reads of the past wait`
          : `the history cannot be read: ${history.fault}`,
        'wait until it is made; if it does not proceed, see the log of the control plane',
      ),
    ),
  },
  {
    code: 'HG2008',
    well: 'the disk of the control plane has room',
    find: of('log', ({ diskFreeBytes: free, history }) =>
      when(
        free !== undefined && free < diskWarn,
        free !== undefined && free < diskFail ? 'fail' : 'warn',
        `the disk of the control plane has ${gigabytes(free ?? 0)} left; its history takes ${gigabytes(history?.bytes ?? 0)}`,
        'free some disk space, or move the data folder',
      ),
    ),
  },
  {
    code: 'HG2009',
    well: 'the topics have the settings that they need',
    find: ({ log }) =>
      log?.brokers?.faults.map(({ topic, ...rest }): Finding => ({ level: 'fail', object: topic, ...rest })),
  },
  {
    code: 'HG2010',
    well: 'the brokers are of a supported release',
    find: ({ log }) => {
      const release = log?.brokers?.oldestBroker;
      if (release === undefined) return undefined;
      return when(
        release < brokerReleaseMin,
        'warn',
        `a broker speaks as Kafka ${release === 0 ? 'before 2.1' : release.toFixed(1)} does, which is no longer maintained`,
        `upgrade the brokers to Kafka ${brokerReleaseMin} or newer`,
      );
    },
  },
  {
    code: 'HG2011',
    well: 'the log is on several brokers',
    find: ({ log }) => {
      const replicas = log?.brokers?.replicas;
      if (replicas === undefined) return undefined;
      return when(
        replicas < 2,
        'warn',
        'a topic is on one broker alone: with that broker the log is lost',
        'run three brokers, then give the topics three replicas: see docs/kafka.md',
      );
    },
  },
  {
    code: 'HG2012',
    well: 'every topic can be read',
    find: ({ log }) =>
      log?.topics?.flatMap(({ topic, failing }): Finding[] => {
        if (failing === undefined) return [];
        const { seconds, reason, isReached } = failing;
        const text = `it cannot be ${isReached ? 'read' : 'reached'} for ${Math.round(seconds)} s: ${reason}`;
        const next = isReached
          ? 'the brokers answer: allow this process to read the topic, or see docs/kafka.md for the error'
          : 'check the brokers and the network, or the folder of HEADGATE_LOG';
        return [{ level: 'fail', object: topic, text, next }];
      }),
  },
  {
    code: 'HG2013',
    well: 'every batch of the topics is readable',
    find: ({ log }) =>
      log?.topics?.flatMap(({ topic, skipped, lastSkipped: last }): Finding[] => {
        if (last === undefined) return [];
        const where = `the last one, in partition ${last.partition} up to offset ${last.offset}, is ${unreadableTexts[last.cause] ?? last.cause}`;
        const text = `${skipped} batches of records were skipped by every reader; ${where}`;
        const next = `find what else writes to ${topic}, and restrict who may; let mirrors and tools write uncompressed`;
        return [{ level: 'warn', object: topic, text, next }];
      }),
  },
  {
    code: 'HG2016',
    well: 'records of gateways have a MAC of the gateway token',
    find: ({ log }) =>
      log?.refused &&
      each(
        log.refused,
        () => true,
        'fail',
        ({ topic }) => topic,
        ({ count, first, last, claimed = [] }) => {
          const names = claimed.length === 0 ? '' : `; by their own claim they are of ${claimed.join(', ')}`;
          return `${count} records have no valid MAC of the gateway token and do not count, at the offsets ${first} to ${last}${names}`;
        },
        ({ topic }) =>
          `upgrade gateways that do not sign, give all the same HEADGATE_GATEWAY_TOKEN, and restrict who may write to ${topic}`,
      ),
  },
  {
    code: 'HG2017',
    well: 'the log can be written',
    find: of('log', ({ writeFault }) =>
      when(
        writeFault !== undefined,
        'fail',
        `nothing can be written to the log: ${writeFault}`,
        'free some disk space where the folder of HEADGATE_LOG is; commands are refused and nobody can report until then',
      ),
    ),
  },
];

const unreadableTexts: Readonly<Record<string, string>> = {
  compressed: 'compressed',
  old_format: 'in a format from before Kafka 0.11',
  too_large: 'larger than 1 MiB',
  too_many_records: 'of too many records',
  malformed: 'broken',
};

/** Releases before it get no more corrections of the project. */
const brokerReleaseMin = 3.9;
