/**
 * Sends the requests of other callers while a fleet is under attack. Runs in a process of its own, so that the attack's own
 * work does not look like waiting time. Its only argument is a JSON file with a plan. It answers each line on stdin with one
 * line that contains everything seen since the previous one. A refused caller tries again until it is answered.
 */
import { readFileSync } from 'node:fs';
import { request } from 'node:http';
import { createInterface } from 'node:readline';
import { setTimeout as pause } from 'node:timers/promises';
import { DevAdmin } from '../../tools/dev/dev-admin.ts';

export interface Question {
  readonly url: string;
  readonly method?: 'GET' | 'POST';
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  /** Text that a good answer contains. */
  readonly contains?: string;
}

export interface Plan {
  readonly questions: Readonly<Record<string, Question>>;
  readonly revocations: {
    readonly admin: string;
    readonly token: string;
    readonly organisation: string;
    readonly everyMs: number;
  };
}

export interface Waits {
  answers: number;
  refusals: number;
  longestMs: number;
  /** Message of the last refusal. */
  fault: string;
}
export type WaitsByName = Readonly<Record<string, Waits>>;

const betweenMs = 100;
const againMs = 20;
const answerMsMax = 20_000;
const plan = JSON.parse(readFileSync(process.argv[2] ?? '', 'utf8')) as Plan;
let seen: Record<string, Waits> = {};
/** Start times of the requests that are waiting for an answer. */
const waiting = new Map<string, number>();

function waitsOf(name: string): Waits {
  seen[name] ??= { answers: 0, refusals: 0, longestMs: 0, fault: '' };
  return seen[name];
}

async function observe(
  name: string,
  everyMs: number,
  ask: () => Promise<void>,
  prepare: () => Promise<void> = async () => undefined,
): Promise<never> {
  for (;;) {
    while ((await faultOf(prepare)) !== undefined) await pause(againMs);
    waiting.set(name, performance.now());
    for (let fault = await faultOf(ask); fault !== undefined; fault = await faultOf(ask)) {
      const waits = waitsOf(name);
      waits.refusals++;
      waits.fault = fault;
      await pause(againMs);
    }
    const waits = waitsOf(name);
    waits.answers++;
    waits.longestMs = Math.max(waits.longestMs, performance.now() - (waiting.get(name) ?? 0));
    waiting.delete(name);
    await pause(everyMs);
  }
}

function faultOf(work: () => Promise<void>): Promise<string | undefined> {
  return work().then(
    () => undefined,
    (error: Error) => error.message,
  );
}

/** Opens a new connection each time, like a caller who has just arrived. */
function ask({ url, method = 'GET', headers = {}, body, contains = '' }: Question): Promise<void> {
  return new Promise((resolve, reject) => {
    const asked = request(url, { method, headers, agent: false }, (response) => {
      let text = '';
      response.on('data', (chunk: Buffer) => {
        text += chunk.toString('latin1');
      });
      response.on('error', reject);
      response.on('end', () => {
        const isGood = response.statusCode === 200 && text.includes(contains);
        if (isGood) resolve();
        else reject(new Error(`${response.statusCode} ${text.slice(0, 160)}`));
      });
    });
    asked.setTimeout(answerMsMax, () => asked.destroy(new Error('no answer in time')));
    asked.on('error', reject);
    asked.end(body);
  });
}

const { admin, token, organisation, everyMs } = plan.revocations;
const operator = new DevAdmin(admin, token);
let key = '';
const create = async (): Promise<void> => {
  key = (await operator.createKey(organisation, 'to be revoked', '30d')).id;
};
/** Works like `key revoke --wait`: revoking the key again is not an error. */
const revoke = async (): Promise<void> => {
  const { position } = await operator.call('POST', `/keys/${key}/revoke`, {});
  const { complete } = await operator.confirmed(position, 30);
  if (!complete) throw new Error('not confirmed');
};
void observe('revocation', everyMs, revoke, create);
for (const [name, question] of Object.entries(plan.questions))
  void observe(name, betweenMs, () => ask(question));

createInterface({ input: process.stdin })
  .on('line', () => {
    const nowMs = performance.now();
    for (const name of [...Object.keys(plan.questions), 'revocation']) waitsOf(name);
    for (const [name, sinceMs] of waiting)
      waitsOf(name).longestMs = Math.max(waitsOf(name).longestMs, nowMs - sinceMs);
    process.stdout.write(`${JSON.stringify(seen)}\n`);
    seen = {};
  })
  .on('close', () => process.exit(0));
