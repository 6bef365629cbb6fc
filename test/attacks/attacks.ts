/** The list of all attacks. `npm run attack` runs every row; the test runs every row that is not marked as long. */
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
