/** Declares the options of commands whose changes can be released in waves. The session reads their values. */
import { InvalidArgumentError } from 'commander';
import { parseWatch, ReleaseFault, releasePlan } from '../../schemas/events/release.ts';
import type { Verb } from '../terminal/verbs.ts';

/** Returns a parser that returns the text unchanged if `check` accepts it. */
function checkedParser(check: (text: string) => unknown): (text: string) => string {
  return (text) => {
    const fault = findFault(() => check(text));
    if (fault === undefined) return text;
    throw new InvalidArgumentError(`It is wrong: ${fault}.`);
  };
}

function findFault(check: () => unknown): string | undefined {
  try {
    check();
    return undefined;
  } catch (error) {
    if (error instanceof ReleaseFault) return error.message;
    throw error;
  }
}

/** Accept any gateway names, because only the control plane knows which gateways exist. */
const waves = checkedParser((text) => releasePlan({ waves: text.split(',') }, text.split(/[,+]/)));
const hold = checkedParser((text) => releasePlan({ hold: text }, ['any']));
const watch = checkedParser(parseWatch);

export function withStage(verb: Verb): Verb {
  return verb
    .option('--stage', 'release the change in waves, and withdraw it automatically if it causes failures')
    .option(
      '--waves <list>',
      'with --stage: each wave is a gateway name, one, a percentage or all; one,10%,50%,all by default',
      waves,
    )
    .option('--hold <duration>', 'with --stage: minimum duration of a wave; 5m by default', hold)
    .option(
      '--watch <rules>',
      'with --stage: thresholds that withdraw the change; refusals=1,errors=1,least=50 by default',
      watch,
    )
    .option(
      '--advance-unseen',
      'with --stage: start the next wave even if the current one has served too few requests',
    );
}
