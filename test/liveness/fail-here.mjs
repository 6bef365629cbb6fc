// Preloaded into a process under test: does harm to one of its threads once a file is there that names the harm.
import { existsSync, readFileSync, rmSync } from 'node:fs';
import { isMainThread, workerData } from 'node:worker_threads';

const file = process.env.FAIL_FILE ?? '';
// Of the workers only that of usage: the one of the decision journal has a path alone.
const isUsageWorker = !isMainThread && Object.keys(workerData ?? {}).join() !== 'path';
const isHere = process.env.FAIL_THREAD === 'main' ? isMainThread : isUsageWorker;
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
  // One word is the harm; a word before it names the command that it is done to.
  const words = readFileSync(file, 'utf8').split(' ');
  if (words.length > 1 && words[0] !== process.argv[2]) return;
  const harm = harms[words.at(-1)];
  // Not written to its end yet.
  if (harm === undefined) return;
  rmSync(file);
  harm();
}

if (isHere && file !== '') {
  look();
  setInterval(look, 20).unref();
}
