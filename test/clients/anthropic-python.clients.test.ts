/**
 * Tests the official Anthropic library for Python, before and after its second major version, and LangChain on top of it.
 * They run with their default settings against stacks that use the Anthropic API. `node test/clients/install.mjs` installs
 * them.
 */
import { afterAll } from 'vitest';
import { anthropicPython } from './anthropic-python-driver.ts';
import { langchainMessagesPython } from './langchain-messages-python-driver.ts';
import {
  type Manners,
  official,
  proveMessagesClient,
  proveNoThread,
  renewed,
  useMessagesFleet,
} from './messages-claims.ts';
import { stopPython } from './python-driver.ts';

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

/** LangChain has error classes of its own, derived from the official ones. */
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

proveMessagesClient('anthropic 0 (Python)', older, () => anthropicPython('anthropic0'));
proveMessagesClient('anthropic 2 (Python)', newer, () => anthropicPython('anthropic2'));
proveMessagesClient('LangChain (Python), anthropic', langchain, () => langchainMessagesPython('anthropic2'));
proveNoThread(
  () => anthropicPython('anthropic2'),
  (client, ask) => client.converseByThread(ask),
);
afterAll(stopPython);
