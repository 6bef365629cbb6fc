/** Live probe for `headgate doctor`. Another organisation's stack must get the same response as one that does not exist. */
import { request as requestHttp } from 'node:http';
import { request as requestHttps } from 'node:https';
import type { DoctorFacts } from '../../control-plane/doctor/facts.ts';
import { ChunkBuffer } from '../../shared/runtime/chunk-buffer.ts';
import { CliError, usageError } from '../terminal/errors.ts';
import type { Session } from '../terminal/session.ts';
import { readInput } from '../terminal/settings.ts';

export interface ProbeOptions {
  /** Base URL of the gateway to probe. */
  readonly probe?: string;
  readonly keyFile?: string;
  /** Id of a stack that does not belong to the organisation whose key the probe uses. */
  readonly stack?: string;
  readonly stackDomain: string;
}

const timeoutMs = 10_000;
const answerBytesMax = 64 * 1024;
const missingStack = 'stk-calm-lizard-0000';
const body = JSON.stringify({ model: 'doctor', messages: [{ role: 'user', content: 'probe' }] });

/** Sends the probe. Returns undefined if no probe was requested. */
export async function probeStacks(
  session: Session,
  { probe, keyFile, stack, stackDomain }: ProbeOptions,
): Promise<DoctorFacts['probe']> {
  if (probe === undefined) return undefined;
  if (keyFile === undefined || stack === undefined || !URL.canParse(probe))
    throw usageError(
      'a probe takes the address of a gateway, a key and a stack of another organisation',
      'headgate doctor --probe https://api.example.net --key-file FILE --stack STACK --stack-domain example.net',
    );
  const key = (await readInput(session.io, keyFile)).trim();
  const ask = (id: string): Promise<string> => requestAnswer(new URL(probe), `${id}.${stackDomain}`, key);
  return { gateway: new URL(probe).host, foreign: await ask(stack), missing: await ask(missingStack) };
}

/** Returns a response's status and body, because a caller could tell stacks apart only by these. */
function requestAnswer(gateway: URL, host: string, key: string): Promise<string> {
  const send = gateway.protocol === 'https:' ? requestHttps : requestHttp;
  return new Promise((resolve, reject) => {
    const failed = (error: Error): void =>
      reject(
        new CliError(`the gateway at ${gateway.host} does not answer`, {
          type: 'Unreachable',
          why: error.message,
          next: 'check --probe',
        }),
      );
    const headers = { host, authorization: `Bearer ${key}`, 'content-type': 'application/json' };
    const options = { method: 'POST', headers, signal: AbortSignal.timeout(timeoutMs) };
    const request = send(new URL('/v1/chat/completions', gateway), options, (response) => {
      const bytes = new ChunkBuffer({ bytesMax: answerBytesMax });
      response.on('data', (chunk: Buffer) => bytes.add(chunk));
      response.on('error', failed);
      response.on('end', () => resolve(`${response.statusCode} ${bytes.whole().toString('utf8')}`));
    });
    request.on('error', failed);
    request.end(body);
  });
}
