/**
 * Proof-of-work challenges in the format of altcha-lib, which solves them in the browser. Anyone may request any number of
 * challenges, so signing one must be cheap: it takes about ten microseconds. Only the check of a solution derives a key.
 */
import { createHmac, hkdfSync, pbkdf2, randomBytes, timingSafeEqual } from 'node:crypto';
import { promisify } from 'node:util';
import { z } from 'zod';

const derive = promisify(pbkdf2);

export const challengeSeconds = 300;
/** Number of PBKDF2 iterations per try. A solution takes about 256 tries, which is a second or two on a phone. */
const cost = 2_000;
const keyLength = 32;
const saltBytes = 16;

const hexSchema = (bytes: number) => z.string().regex(new RegExp(`^[0-9a-f]{${bytes * 2}}$`));

const challengeSchema = z.object({
  // Keep the members in this order, because it is the order in which altcha-lib signs them.
  parameters: z.object({
    algorithm: z.literal('PBKDF2/SHA-256'),
    cost: z.literal(cost),
    data: z.object({ network: z.string().max(256) }),
    expiresAt: z.int(),
    keyLength: z.literal(keyLength),
    keyPrefix: z.literal('00'),
    nonce: hexSchema(saltBytes),
    salt: hexSchema(saltBytes),
  }),
  signature: hexSchema(32),
});

export const solutionSchema = z.object({
  challenge: challengeSchema,
  solution: z.object({ counter: z.int().min(0).max(0xffff_ffff), derivedKey: hexSchema(keyLength) }),
});

export type Challenge = z.output<typeof challengeSchema>;
export type Solution = z.output<typeof solutionSchema>;

export class Challenges {
  readonly #secret: string;

  constructor(gatewayToken: string) {
    const key = hkdfSync('sha256', gatewayToken, '', 'headgate visitor work v1', 32);
    this.#secret = Buffer.from(key).toString('base64url');
  }

  create(network: string, nowMs: number): Challenge {
    const parameters: Challenge['parameters'] = {
      algorithm: 'PBKDF2/SHA-256',
      cost,
      data: { network },
      expiresAt: Math.floor(nowMs / 1000) + challengeSeconds,
      keyLength,
      keyPrefix: '00',
      nonce: randomBytes(saltBytes).toString('hex'),
      salt: randomBytes(saltBytes).toString('hex'),
    };
    return { parameters, signature: this.#sign(parameters).toString('hex') };
  }

  /** Whether a gateway with the same token created this challenge for the network, and the challenge has not expired. */
  isValid({ parameters, signature }: Challenge, network: string, nowMs: number): boolean {
    if (parameters.data.network !== network || parameters.expiresAt * 1000 < nowMs) return false;
    return timingSafeEqual(this.#sign(parameters), Buffer.from(signature, 'hex'));
  }

  #sign(parameters: Challenge['parameters']): Buffer {
    return createHmac('sha256', this.#secret).update(JSON.stringify(parameters)).digest();
  }
}

/** Whether the solution solves its challenge. Derives a key, on a thread of libuv. */
export async function isSolved({ challenge, solution }: Solution): Promise<boolean> {
  const { nonce, salt } = challenge.parameters;
  const password = Buffer.alloc(saltBytes + 4);
  password.write(nonce, 'hex');
  password.writeUInt32BE(solution.counter, saltBytes);
  const key = await derive(password, Buffer.from(salt, 'hex'), cost, keyLength, 'sha256');
  return key[0] === 0 && timingSafeEqual(key, Buffer.from(solution.derivedKey, 'hex'));
}
