// Preloaded into a process under test. Makes one of its threads fail once a file exists that names the failure.
import { existsSync, readFileSync, rmSync } from 'node:fs';
import { isMainThread, workerData } from 'node:worker_threads';

const file = process.env.FAIL_FILE ?? '';
// Recognises the worker for usage records. The decision journal's worker gets only a path as its data.
const isUsageWorker = !isMainThread && Object.keys(workerData ?? {}).join() !== 'path';
const isHere = process.env.FAIL_THREAD === 'main' ? isMainThread : isUsageWorker;
/** A text that an error may quote from a request. It must not reach the log. */
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
  // The file contains the name of a failure, preceded by a command's name if only processes of this command should fail.
  const words = readFileSync(file, 'utf8').split(' ');
  if (words.length > 1 && words[0] !== process.argv[2]) return;
  const harm = harms[words.at(-1)];
  // The file that names the failure has not been written completely yet.
  if (harm === undefined) return;
  rmSync(file);
  harm();
}

if (isHere && file !== '') {
  look();
  setInterval(look, 20).unref();
}
