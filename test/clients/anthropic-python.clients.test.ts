/**
 * The official Anthropic library for Python, before and after its second major version, and LangChain upon it, with their
 * defaults, against stacks that are switched to their API. They come from `node test/clients/install.mjs`.
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type AnthropicPython, anthropicPython } from './anthropic-python-driver.ts';
import { cached } from './cache.ts';
import { langchainMessagesPython } from './langchain-messages-python-driver.ts';
import { type Manners, proveMessagesClient, toStack, useMessagesFleet } from './messages-claims.ts';

const at = useMessagesFleet();

const older: Manners = {
  keyIn: 'x-api-key',
  version: '2023-06-01',
  errors: {
    Unauthorized: 'AuthenticationError',
    UnsupportedShapeError: 'BadRequestError',
    ModelNotInPlanError: 'PermissionDeniedError',
    TargetNotServingError: 'NotFoundError',
    InferenceUpsellError: 'ConflictError',
    ContextWindowExceededError: 'RequestTooLargeError',
    InternalError: 'InternalServerError',
    InferenceUnavailableError: 'InternalServerError',
    'early end': 'RemoteProtocolError',
  },
  backoffMs: 350,
};
const newer: Manners = {
  ...older,
  keyIn: 'authorization',
  version: '2026-10-21',
  errors: {
    ...older.errors,
    ContextWindowExceededError: 'ContentTooLargeError',
    InferenceUnavailableError: 'ServiceUnavailableError',
  },
};

/** LangChain has classes of its own, derived from the official ones. */
const langchain: Manners = {
  ...newer,
  errors: {
    ...newer.errors,
    Unauthorized: 'AnthropicAuthenticationError',
    UnsupportedShapeError: 'AnthropicInvalidRequestError',
    ModelNotInPlanError: 'AnthropicPermissionDeniedError',
    TargetNotServingError: 'AnthropicModelNotFoundError',
    InternalError: 'AnthropicAPIError',
    InferenceUnavailableError: 'AnthropicAPIError',
  },
};

const opened: { stop(): Promise<void> }[] = [];
const kept = <T extends { stop(): Promise<void> }>(client: T): T => {
  opened.push(client);
  return client;
};
const pythonOf = (environment: string): string => cached(`${environment}/bin/python`);
const open = async (environment: string): Promise<AnthropicPython> =>
  kept(await anthropicPython(pythonOf(environment)));
afterAll(async () => {
  await Promise.all(opened.map((client) => client.stop()));
});

proveMessagesClient('anthropic 0 (Python)', older, () => open('python-anthropic0'));
proveMessagesClient('anthropic 2 (Python)', newer, () => open('python-anthropic2'));
proveMessagesClient('LangChain (Python), anthropic', langchain, async () =>
  kept(await langchainMessagesPython(pythonOf('python-anthropic2'))),
);

let client: AnthropicPython;
beforeAll(async () => {
  client = await open('python-anthropic2');
});

test('Errors 2: the tool runner that keeps its conversation in a thread is answered with how to do without', async () => {
  const ask = { ...toStack(), text: 'call weather with {"city":"Oslo"}', tools: 'auto' as const };
  const error = await client.converseByThread(ask).catch((thrown: unknown) => thrown);
  expect(client.failure(error)).toMatchObject({ name: 'BadRequestError', type: 'UnsupportedShapeError' });
  expect((error as Error).message).toContain('set `thread: false` in the tool runner');
  expect(at().wires.acme.sightings).toHaveLength(1);
});
