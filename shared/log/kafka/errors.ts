/**
 * What can go wrong with a request to Kafka, by the one question that matters to a writer: can it have taken effect?
 * The driver's errors become KafkaFaults at its border; texts name Kafka's error, never an address or a record.
 */
import { LogUnavailable } from '../core/control-log.ts';

/** `unsent`: it never left. `lost`: it left and no answer came. `answered`: the broker answered with an error. */
export type FaultKind = 'unsent' | 'lost' | 'answered';

export class KafkaFault extends Error {
  override readonly name = 'KafkaFault';
  readonly kind: FaultKind;
  /** Kafka's name of the error where it was answered, else the system's, for example ECONNREFUSED. */
  readonly type: string;

  constructor(type: string, options: ErrorOptions & { readonly kind: FaultKind }) {
    super(`${sentences[options.kind]} (${type})`, options);
    this.kind = options.kind;
    this.type = type;
  }
}

const sentences: Readonly<Record<FaultKind, string>> = {
  unsent: 'Kafka cannot be reached',
  lost: 'Kafka did not answer',
  answered: 'Kafka refused',
};

/** The topic is set so that the log would lose or hide records; the text names the command that mends it. */
export class TopicMisset extends LogUnavailable {}

/** Answers after which a produced record is surely not in the log, though trying again may put it there. */
const notWrittenNow = new Set([
  'UNKNOWN_TOPIC_OR_PARTITION',
  'NOT_ENOUGH_REPLICAS',
  'LEADER_NOT_AVAILABLE',
  'THROTTLING_QUOTA_EXCEEDED',
]);

/** Answers after which it is surely not there and never will be. */
const notWrittenEver = new Set([
  'CORRUPT_MESSAGE',
  'MESSAGE_TOO_LARGE',
  'RECORD_LIST_TOO_LARGE',
  'INVALID_TOPIC_EXCEPTION',
  'INVALID_REQUIRED_ACKS',
  'TOPIC_AUTHORIZATION_FAILED',
  'CLUSTER_AUTHORIZATION_FAILED',
  'UNSUPPORTED_VERSION',
  'INVALID_REQUEST',
  'INVALID_TIMESTAMP',
  'POLICY_VIOLATION',
  'INVALID_RECORD',
]);

/**
 * What became of a produced record. A leader that was deposed while it waited for its replicas answers as one that never
 * was the leader: with several replicas that answer decides nothing.
 */
export function outcomeOf(fault: KafkaFault, replicas: number): 'not written' | 'refused' | 'unknown' {
  if (fault.kind !== 'answered') return fault.kind === 'unsent' ? 'not written' : 'unknown';
  if (notWrittenNow.has(fault.type)) return 'not written';
  if (fault.type === 'NOT_LEADER_FOR_PARTITION' && replicas === 1) return 'not written';
  return notWrittenEver.has(fault.type) ? 'refused' : 'unknown';
}

/** Faults that no waiting mends. */
export function isLasting(error: unknown): boolean {
  return error instanceof KafkaFault && (error.type === 'SASL' || notWrittenEver.has(error.type));
}
