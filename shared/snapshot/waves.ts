/** Which gateways a change has reached: a function of the state and a gateway's name, the same for every reader. */
import { createHash } from 'node:crypto';
import type { Wave } from '../../schemas/changes.ts';

/** Where the gateway stands among all, from 0 up to, not including, 1. */
function placeOf(change: string, gateway: string): number {
  const hash = createHash('sha256').update(`${change}\0${gateway}`).digest();
  return hash.readUIntBE(0, 6) / 2 ** 48;
}

/** The first wave that has the gateway, from 1 on; undefined where none has. */
export function waveOf(change: string, waves: readonly Wave[], gateway: string): number | undefined {
  const place = placeOf(change, gateway);
  const at = waves.findIndex((wave) =>
    'gateways' in wave ? wave.gateways.includes(gateway) : place < wave.share,
  );
  return at === -1 ? undefined : at + 1;
}
