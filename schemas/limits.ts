/**
 * What gateways exchange so that limits hold over the whole fleet: two topics of small cumulative records, `headgate.gauges`
 * (requests per minute, weight in flight) and `headgate.counters` (tokens, turns). A record that is lost, late or doubled
 * does no harm once a later one arrives. Neither topic is part of a digest.
 */

export const gaugesTopic = 'headgate.gauges';
export const countersTopic = 'headgate.counters';
export type LimitTopicName = typeof gaugesTopic | typeof countersTopic;

/** How long a record is kept, seconds. */
export const limitTopicKeepSeconds = {
  [gaugesTopic]: 3600,
  [countersTopic]: 24 * 3600,
} as const;

/** How long a segment is written on Kafka, seconds: only whole segments are removed. */
export const limitTopicSegmentSeconds = 600;

/** A record of either topic has at most so many bytes. */
export const limitRecordBytesMax = 128 * 1024;
