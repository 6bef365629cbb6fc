// Loaded into a process with --import. Simulates machines that a test cannot have: HEADGATE_TEST_NODE sets the version of
// Node, HEADGATE_TEST_NOW the time at the start, HEADGATE_TEST_DISK the free bytes on every disk, and HEADGATE_TEST_FETCH the
// highest fetch version that brokers announce.
import promises from 'node:fs/promises';
import { createRequire, syncBuiltinESMExports } from 'node:module';

const { HEADGATE_TEST_NODE: node, HEADGATE_TEST_NOW: now } = process.env;
const { HEADGATE_TEST_DISK: disk, HEADGATE_TEST_FETCH: fetchVersion } = process.env;

if (node !== undefined) Object.defineProperty(process, 'versions', { value: { ...process.versions, node } });

if (now !== undefined) {
  const aheadMs = Date.parse(now) - Date.now();
  const present = Date.now.bind(Date);
  Date.now = () => present() + aheadMs;
}

if (disk !== undefined) {
  const { statfs } = promises;
  promises.statfs = async (...args) => ({ ...(await statfs(...args)), bsize: 1, bavail: Number(disk) });
  syncBuiltinESMExports();
}

if (fetchVersion !== undefined) {
  const Broker = createRequire(import.meta.url)('kafkajs/src/broker/index.js');
  const { connect } = Broker.prototype;
  Broker.prototype.connect = async function (...args) {
    await connect.apply(this, args);
    const known = this.versions?.[1];
    if (known) known.maxVersion = Math.min(known.maxVersion, Number(fetchVersion));
  };
}
