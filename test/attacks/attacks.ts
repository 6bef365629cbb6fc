/** All attacks. A row more here is run by the command and, where it is not left out there, by the test. */
import type { Attack } from './attack.ts';
import { callerAttacks } from './caller-attacks.ts';
import { fileAttacks } from './file-attacks.ts';
import { listenerAttacks } from './listener-attacks.ts';
import { peerAttacks } from './peer-attacks.ts';

export const attacks: readonly Attack[] = [
  ...listenerAttacks,
  ...callerAttacks,
  ...peerAttacks,
  ...fileAttacks,
];
