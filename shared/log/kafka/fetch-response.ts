/** Decodes one partition's fetch response except its record batches, because kafkajs would decompress all of them at once. */
import type { FetchedPartition } from './connection.ts';
import { KafkaFault } from './errors.ts';

/** Versions of the fetch request that kafkajs can send and whose response this file can decode. */
export const fetchVersions = { min: 7, max: 11 } as const;

/** Returns the partition with Kafka's error code. Throws `KafkaFault` if the response does not contain a partition. */
export function decodeFetchResponse(
  bytes: Buffer,
  version: number,
): FetchedPartition & { readonly errorCode: number } {
  try {
    return decode(bytes, version);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    throw new KafkaFault('INCOMPLETE_RESPONSE', { kind: 'lost', cause: error });
  }
}

/**
 * Decodes a response with this layout: throttle_time int32, error_code int16, session_id int32, topics int32 [name string,
 * partitions int32 [partition int32, error_code int16, high_watermark int64, last_stable_offset int64, log_start_offset
 * int64, aborted_transactions int32 [16 bytes], (since version 11) preferred_read_replica int32, records bytes]].
 */
function decode(bytes: Buffer, version: number): FetchedPartition & { readonly errorCode: number } {
  const sessionError = bytes.readInt16BE(4);
  const empty = { highWatermark: 0, startOffset: 0, recordSet: Buffer.alloc(0) };
  if (sessionError !== 0) return { ...empty, errorCode: sessionError };
  if (bytes.readInt32BE(10) < 1) throw new KafkaFault('EMPTY_RESPONSE', { kind: 'lost' });
  const partitions = 16 + bytes.readInt16BE(14);
  if (bytes.readInt32BE(partitions) < 1) throw new KafkaFault('EMPTY_RESPONSE', { kind: 'lost' });
  const at = partitions + 4;
  const aborted = Math.max(bytes.readInt32BE(at + 30), 0);
  const records = at + 34 + aborted * 16 + (version >= 11 ? 4 : 0);
  const length = Math.max(bytes.readInt32BE(records), 0);
  return {
    errorCode: bytes.readInt16BE(at + 4),
    highWatermark: Number(bytes.readBigInt64BE(at + 6)),
    startOffset: Number(bytes.readBigInt64BE(at + 22)),
    recordSet: bytes.subarray(records + 4, records + 4 + length),
  };
}
