// Loaded into a process with --import: while the file $HEADGATE_TEST_FAULT is there, a key that is looked up ends in an error
// that no rule of the service makes.
import crypto from 'node:crypto';
import { existsSync } from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';

const file = process.env['HEADGATE_TEST_FAULT'] ?? '';
const { hash } = crypto;
crypto.hash = (...args) => {
  if (existsSync(file) && new Error('where').stack.includes('hashKey'))
    throw new Error('a fault of the test');
  return hash(...args);
};
syncBuiltinESMExports();
