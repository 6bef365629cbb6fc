/** `doctor` checks for the log and its topics. */
import { check, type DoctorCheck, defineChecks, only } from './check.ts';
import { diskFail, diskWarn, gigabytes } from './machine-checks.ts';

const freshWarnSeconds = 10;

/** Returns advice for a topic that is missing on Kafka. */
function missingTopicNext(topic: string): string {
  if (topic === 'headgate.control')
    return 'the topic is missing: see "The log is unreachable, lost or truncated" in docs/recover.md';
  if (topic === 'headgate.usage')
    return 'the topic is missing: restart a control plane, which creates it; gateways still have the rows of the last day';
  return 'the topic is missing: running processes create it again if they may create topics; see HG2012 in docs/errors';
}

const ofLog = defineChecks(({ log }) => only(log));
export const logChecks: readonly DoctorCheck[] = [
  ofLog({
    code: 'HG2001',
    well: 'the log is reachable',
    level: 'fail',
    wrong: ({ reachable }) => !reachable,
    text: ({ reason }) => `the control log cannot be reached${reason === undefined ? '' : `: ${reason}`}`,
    next: 'check the brokers, or the folder of HEADGATE_LOG',
  }),
  ofLog({
    code: 'HG2002',
    well: 'the fold follows the log',
    level: 'fail',
    wrong: ({ fault }) => fault !== undefined,
    text: ({ fault }) => `this process has stopped following the log: ${fault}`,
    next: 'see docs/recover.md, "A process that cannot continue"',
  }),
  ofLog({
    code: 'HG2003',
    well: 'the state is proven fresh',
    level: 'warn',
    wrong: ({ freshSeconds: age, reachable }) => reachable && (age === null || age > freshWarnSeconds),
    text: ({ freshSeconds: age }) =>
      age === null
        ? 'the state was never proven fresh'
        : `the last proof of freshness is ${Math.round(age)} s old`,
    next: 'check the latency of the log and the load of this replica',
  }),
  ofLog({
    code: 'HG2004',
    well: 'every record of the log counts',
    level: 'warn',
    wrong: ({ skipped }) => skipped > 1000,
    text: ({ skipped }) =>
      `${skipped} records in the log do not extend the chain: something else writes to the topic`,
    next: 'restrict who may write to headgate.control',
  }),
  check({
    code: 'HG2005',
    well: 'all control planes may sign the log',
    of: ({ controlPlanes }) => controlPlanes,
    level: 'fail',
    wrong: ({ maySign }, { log }) => log?.isSigned === true && !maySign,
    text: 'the log is signed, but this replica has no trusted signing key, so its commands are refused',
    next: 'headgate signer add PUBLIC-KEY-FILE, then give the replica the key with HEADGATE_SIGNING_KEY',
  }),
  ofLog({
    code: 'HG2006',
    well: 'the state agrees with the checkpoints of the log',
    level: 'fail',
    wrong: ({ divergedAt }) => divergedAt !== undefined,
    text: ({ divergedAt }) => `the state differs from the checkpoint at ${divergedAt}`,
    next: 'stop this replica, delete its state.db and start it again',
  }),
  ofLog({
    code: 'HG2007',
    well: 'the history is complete',
    level: 'warn',
    wrong: ({ history, position }) =>
      history !== undefined && (history.fault !== undefined || position - history.position > 1000),
    text: ({ history, position }) =>
      history?.fault === undefined
        ? `the history has ${history?.position} of ${position} commits: reads of the past wait`
        : `the history cannot be read: ${history.fault}`,
    next: 'wait until it is complete; if its position does not move, read the log of the control plane',
  }),
  ofLog({
    code: 'HG2008',
    well: 'the disk of the control plane has room',
    level: ({ diskFreeBytes: free }) => (free !== undefined && free < diskFail ? 'fail' : 'warn'),
    wrong: ({ diskFreeBytes: free }) => free !== undefined && free < diskWarn,
    text: ({ diskFreeBytes: free, history }) =>
      `the disk of the control plane has ${gigabytes(free ?? 0)} left; its history takes ${gigabytes(history?.bytes ?? 0)}`,
    next: 'free some disk space, or move the data folder',
  }),
  check({
    code: 'HG2009',
    well: 'the topics have the settings that they need',
    of: ({ log }) => log?.brokers?.faults,
    level: 'fail',
    object: ({ topic }) => topic,
    text: ({ text }) => text,
    next: ({ next }) => next,
  }),
  check({
    code: 'HG2010',
    well: 'the brokers are of a supported release',
    of: ({ log }) => only(log?.brokers?.oldestBroker),
    level: 'warn',
    wrong: (release) => release < brokerReleaseMin,
    text: (release) =>
      `a broker runs Kafka ${release === 0 ? 'before 2.1' : release.toFixed(1)}, which is no longer maintained`,
    next: () => `upgrade the brokers to Kafka ${brokerReleaseMin} or newer`,
  }),
  check({
    code: 'HG2011',
    well: 'the log is on several brokers',
    of: ({ log }) => only(log?.brokers?.replicas),
    level: 'warn',
    wrong: (replicas) => replicas < 2,
    text: 'a topic is on a single broker: if that broker is lost, so is the log',
    next: 'run three brokers, then give the topics three replicas: see docs/kafka.md',
  }),
  check({
    code: 'HG2012',
    well: 'every topic can be read',
    of: ({ log }) => log?.topics?.flatMap(({ topic, failing }) => (failing ? [{ topic, ...failing }] : [])),
    level: 'fail',
    object: ({ topic }) => topic,
    text: ({ seconds, reason, isReached }) =>
      `it could not be ${isReached ? 'read' : 'reached'} for ${Math.round(seconds)} s: ${reason}`,
    next: ({ isReached, reason, topic }) => {
      if (/UNKNOWN_TOPIC_OR_PARTITION|does not exist/.test(reason)) return missingTopicNext(topic);
      return isReached
        ? 'the brokers answer: allow this process to read the topic, or see docs/kafka.md for the error'
        : 'check the brokers and the network, or the folder of HEADGATE_LOG';
    },
  }),
  check({
    code: 'HG2013',
    well: 'every batch of the topics is readable',
    of: ({ log }) =>
      log?.topics?.flatMap(({ lastSkipped: last, ...topic }) => (last ? [{ ...topic, ...last }] : [])),
    level: 'warn',
    object: ({ topic }) => topic,
    text: ({ skipped, partition, offset, cause }) =>
      `${skipped} batches of records were skipped by every reader; the last one, in partition ${partition} up to offset ${offset}, is ${unreadableTexts[cause] ?? cause}`,
    next: ({ topic }) =>
      `find out what else writes to ${topic}, and restrict write access; let mirrors and tools write uncompressed`,
  }),
  check({
    code: 'HG2016',
    well: 'records of gateways have a MAC of the gateway token',
    of: ({ log }) => log?.refused,
    level: 'fail',
    object: ({ topic }) => topic,
    text: ({ count, first, last, claimed = [] }) => {
      const names = claimed.length === 0 ? '' : `; the records name ${claimed.join(', ')} as their writer`;
      return `${count} records have no valid MAC of the gateway token and do not count, at the offsets ${first} to ${last}${names}`;
    },
    next: ({ topic }) =>
      `upgrade gateways that do not sign, give all processes the same HEADGATE_GATEWAY_TOKEN, and restrict who may write to ${topic}`,
  }),
  ofLog({
    code: 'HG2017',
    well: 'the log can be written',
    level: 'fail',
    wrong: ({ writeFault }) => writeFault !== undefined,
    text: ({ writeFault }) => `nothing can be written to the log: ${writeFault}`,
    next: ({ writeFault = '' }) =>
      /AUTHORIZATION_FAILED/.test(writeFault)
        ? 'allow this process to write to headgate.control (docs/kafka.md), then repeat the command'
        : 'free some space on the disk of the HEADGATE_LOG folder; until then commands are refused and no process can report',
  }),
];

const unreadableTexts: Readonly<Record<string, string>> = {
  compressed: 'compressed',
  old_format: 'in a format from before Kafka 0.11',
  too_large: 'larger than 1 MiB',
  too_many_records: 'with too many records',
  malformed: 'broken',
};

/** Oldest Kafka release that still receives fixes. */
const brokerReleaseMin = 3.9;
