/** Encodes and decodes a gauge record, so that a test sees what readers of the record see. */
import { decodeGauges, encodeGauges, type GaugeRecord } from '../../schemas/records/gauges.ts';

export function readGauges(record: GaugeRecord): GaugeRecord {
  const read = decodeGauges(encodeGauges(record));
  if (read === undefined) throw new Error(`no reader takes ${JSON.stringify(record)}`);
  return read;
}
