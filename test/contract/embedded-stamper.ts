/**
 * A program that appends the current time to an embedded log at a given pace, so that a reader in another process can measure
 * how long records take to arrive. Arguments: folder, topic, count, pause in ms. The times can be compared because all
 * processes of a machine share one monotonic clock.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { openEmbeddedLog } from '../../shared/log/embedded/embedded-log.ts';

const [folder = '', topic = '', count = '0', pauseMs = '10'] = process.argv.slice(2);

const log = await openEmbeddedLog({ folder, address: { topic } });
for (let n = 0; n < Number(count); n++) {
  await log.append(Buffer.from(String(process.hrtime.bigint())));
  await pause(Number(pauseMs));
}
await log.close();
