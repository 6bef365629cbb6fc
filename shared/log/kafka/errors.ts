/** Classifies failed requests to Kafka by whether they may have taken effect. Messages contain no addresses or records. */
import { LogUnavailable } from '../core/control-log.ts';

/** `unsent`: the request was never sent. `lost`: it got no response. `answered`: the broker returned an error. */
export type FaultKind = 'unsent' | 'lost' | 'answered';

export class KafkaFault extends Error {
  override readonly name = 'KafkaFault';
  readonly kind: FaultKind;
  /** Kafka's error code if the broker responded, otherwise the system's, for example ECONNREFUSED. */
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

/** Thrown if a topic's settings would lose or hide records. The message contains the command that corrects them. */
export class TopicMisconfigured extends LogUnavailable {}

/** Error codes after which a produced record is certainly not in the log and a retry may succeed. */
const retryableCodes = new Set([
  'UNKNOWN_TOPIC_OR_PARTITION',
  'NOT_ENOUGH_REPLICAS',
  'LEADER_NOT_AVAILABLE',
  'THROTTLING_QUOTA_EXCEEDED',
]);

/** Error codes after which a produced record is certainly not in the log and retries cannot succeed. */
const permanentCodes = new Set([
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
 * Decides whether a failed produce request was written. If there are several replicas, "not the leader" leaves this open: a
 * broker that never led returns the same code as a leader that was deposed while waiting for its replicas.
 */
export function produceOutcome(fault: KafkaFault, replicas: number): 'not written' | 'refused' | 'unknown' {
  if (fault.kind !== 'answered') return fault.kind === 'unsent' ? 'not written' : 'unknown';
  if (retryableCodes.has(fault.type)) return 'not written';
  if (fault.type === 'NOT_LEADER_FOR_PARTITION' && replicas === 1) return 'not written';
  return permanentCodes.has(fault.type) ? 'refused' : 'unknown';
}

export function isForbidden(error: unknown): boolean {
  return error instanceof KafkaFault && error.type.endsWith('AUTHORIZATION_FAILED');
}

/** Whether retrying the request can never succeed. */
export function isPermanent(error: unknown): boolean {
  return error instanceof KafkaFault && (error.type === 'SASL' || permanentCodes.has(error.type));
}
