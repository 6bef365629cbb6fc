/**
 * A program that appends to an embedded log, for tests that kill it or fill its disk. Arguments: folder, topic, name, count,
 * bytes. Each record is `name:n` padded to `bytes`. After each append it writes a line to stdout synchronously, so every line
 * stands for an acknowledged append.
 */
import { writeSync } from 'node:fs';
import { openEmbeddedLog } from '../../shared/log/embedded/embedded-log.ts';

const [folder = '', topic = '', name = '', count = '0', bytes = '0'] = process.argv.slice(2);

const log = await openEmbeddedLog({ folder, address: { topic } });
writeSync(1, 'ready\n');
for (let n = 0; n < Number(count); n++) {
  const value = Buffer.from(`${name}:${n}`.padEnd(Number(bytes), '.'));
  try {
    const offset = await log.append(value);
    writeSync(1, `ack ${n} ${offset}\n`);
  } catch (error) {
    writeSync(1, `error ${error instanceof Error ? `${error.name}: ${error.message}` : String(error)}\n`);
    break;
  }
}
await log.close();
