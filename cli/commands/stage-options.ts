/** The options of commands whose events can be released in waves. The session has what they say. */
import type { Verb } from '../terminal/verbs.ts';

export function withStage(verb: Verb): Verb {
  return verb
    .option('--stage', 'release it in waves, and take it back by itself where it does harm')
    .option('--waves <list>', 'of --stage: gateways by name, one, shares and all; one,10%,50%,all by default')
    .option('--hold <duration>', 'of --stage: how long a wave lasts at least, 5m by default')
    .option('--watch <rules>', 'of --stage: what withdraws it; refusals=1,errors=1,least=50 by default')
    .option('--advance-unseen', 'of --stage: do not wait for requests in a wave');
}
