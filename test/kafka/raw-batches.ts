/** Writes and reads a partition's record batches byte by byte, because a client would refuse or decode them. */
import { connect } from 'node:net';
import { createDial } from '../../shared/log/kafka/client.ts';
import { unstored } from '../support/record-batches.ts';

const nothing = -1;

/**
 * Appends a batch. Resolves with its first offset, or rejects with Kafka's error code. The first offset inside the batch must
 * be 0.
 */
export async function produceBatch(
  broker: string,
  topic: string,
  batch: Buffer,
  partition = 0,
): Promise<number> {
  const head = Buffer.alloc(27 + topic.length + 12);
  let at = 0;
  const int16 = (value: number) => {
    at = head.writeInt16BE(value, at);
  };
  const int32 = (value: number) => {
    at = head.writeInt32BE(value, at);
  };
  int16(0); // API key: Produce
  int16(7); // API version
  int32(1); // Correlation id
  int16(nothing); // No client id
  int16(nothing); // No transactional id
  int16(-1); // Acks from all replicas
  int32(20_000); // Time-out in ms
  int32(1);
  int16(topic.length);
  at += head.write(topic, at);
  int32(1);
  int32(partition);
  int32(batch.length);
  const size = Buffer.alloc(4);
  size.writeInt32BE(at + batch.length);
  const response = await exchange(broker, Buffer.concat([size, head.subarray(0, at), batch]));
  const partitionAt = 8 + 4 + 2 + topic.length + 4;
  const errorCode = response.readInt16BE(partitionAt + 4);
  if (errorCode !== 0) throw new Error(`Kafka refuses the batch with error ${errorCode}`);
  return Number(response.readBigInt64BE(partitionAt + 6));
}

function exchange(broker: string, request: Buffer): Promise<Buffer> {
  const [host = '', port = ''] = broker.split(':');
  const socket = connect({ host, port: Number(port) });
  return new Promise((resolve, reject) => {
    let received = Buffer.alloc(0);
    socket.on('data', (chunk) => {
      received = Buffer.concat([received, chunk]);
      if (received.length < 4 || received.length < 4 + received.readInt32BE(0)) return;
      socket.destroy();
      resolve(received);
    });
    socket.once('error', reject);
    socket.once('close', () => reject(new Error('Kafka closed the connection')));
    socket.write(request);
  });
}

/** Returns all batches of a partition as they are stored, so that they can be written again. */
export async function storedBatches(broker: string, topic: string, partition = 0): Promise<Buffer[]> {
  const [host = '', port = ''] = broker.split(':');
  const connection = await createDial({})({ host, port: Number(port) });
  try {
    const target = { topic, partition };
    const end = await connection.offset(target, 'end');
    const found: Buffer[] = [];
    for (let offset = await connection.offset(target, 'start'); offset < end; ) {
      const { recordSet } = await connection.fetch({ ...target, offset, waitMs: 0, bytesMax: 1 });
      const batch = recordSet.subarray(0, 12 + recordSet.readInt32BE(8));
      offset = Number(batch.readBigInt64BE(0)) + batch.readInt32BE(23) + 1;
      // Skips transaction markers, because only brokers may write them.
      if ((batch.readInt16BE(21) & 0x20) === 0) found.push(unstored(batch));
    }
    return found;
  } finally {
    connection.destroy();
  }
}
