/** Solves the proof of work with the browser's WebCrypto, which does not block the page. */
import { type Challenge, type Payload, solveChallenge } from 'altcha-lib';
import { deriveKey } from 'altcha-lib/algorithms/web/pbkdf2';

export async function solve(challenge: Challenge): Promise<Payload> {
  const solution = await solveChallenge({ challenge, deriveKey });
  if (solution === null)
    throw new Error('The browser did not finish the proof of work in time. Reload the page.');
  return { challenge, solution };
}
