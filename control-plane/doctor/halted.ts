/** Advice for a process that does not follow the log. The advice depends on the reason that the process reports. */

/** Patterns for the reasons why a process does not follow the log, each with its advice. The first match counts. */
const nexts: readonly (readonly [is: RegExp, next: string])[] = [
  [
    / --trust-signer |signature|signer/,
    'give it the signers that the others trust: see docs/security.md, "Signatures"',
  ],
  [/^the fold halted |later version/, 'upgrade it: its build does not know an event of the log'],
  [/^this is log |^this log does not begin /, 'give it the HEADGATE_LOG that the others have'],
  [
    / was (?:removed|replaced) | on Kafka |begins at offset |ends at offset |^the log (?:ends|no longer holds) /,
    'put the log back as it was; if it is lost, see docs/recover.md, "The log is unreachable, lost or truncated"',
  ],
  [/SQLITE_|cannot write /, 'free some space on the disk of its data folder, and make the folder writable'],
];

export function nextOfHalted(fault: string | undefined): string {
  if (fault === undefined) return 'give it the HEADGATE_LOG that the others have';
  return nexts.find(([is]) => is.test(fault))?.[1] ?? 'see docs/recover.md, "A process that cannot continue"';
}
