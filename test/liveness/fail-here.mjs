// Preloaded into a process under test: does harm to one of its threads once a file is there that names the harm.
import { existsSync, readFileSync, rmSync } from 'node:fs';
import { isMainThread } from 'node:worker_threads';

const file = process.env.FAIL_FILE ?? '';
const isHere = (process.env.FAIL_THREAD === 'main') === isMainThread;
/** What an error of this kind may quote: it must not reach the log. */
const secret = 'hg_secret-that-a-request-brought';

const harms = {
  throw: () => {
    throw new TypeError(`Cannot read properties of undefined (reading '${secret}')`);
  },
  reject: () => {
    void Promise.reject(new SyntaxError(`Unexpected token, "${secret}" is not valid JSON`));
  },
  value: () => {
    throw { secret };
  },
  exit: () => process.exit(7),
  hang: () => {
    for (;;);
  },
};

function look() {
  if (!existsSync(file)) return;
  const harm = harms[readFileSync(file, 'utf8')];
  rmSync(file);
  harm();
}

if (isHere && file !== '') {
  look();
  setInterval(look, 20).unref();
}
