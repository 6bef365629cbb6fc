/**
 * The official Anthropic library for Python, before and after its second major version, and LangChain upon it, with their
 * defaults, against stacks that are switched to their API. They come from `node test/clients/install.mjs`.
 */
import { afterAll } from 'vitest';
import { type AnthropicPython, anthropicPython } from './anthropic-python-driver.ts';
import { cached } from './cache.ts';
import { langchainMessagesPython } from './langchain-messages-python-driver.ts';
import {
  type Manners,
  official,
  proveMessagesClient,
  proveNoThread,
  renewed,
  useMessagesFleet,
} from './messages-claims.ts';

useMessagesFleet();

const older: Manners = {
  ...official,
  errors: {
    ...official.errors,
    ContextWindowExceededError: 'RequestTooLargeError',
    'early end': 'RemoteProtocolError',
  },
};
const newer = renewed(older);

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

proveNoThread(
  () => open('python-anthropic2'),
  (client, ask) => client.converseByThread(ask),
);
