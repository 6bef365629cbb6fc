/**
 * Tests frameworks with their Anthropic packages and default settings, against stacks that use the Anthropic API. `node
 * test/clients/install.mjs` installs them. Packages that require Node 22 run on Node 20 too.
 */
import { cachedModule } from './cache.ts';
import { langchainMessages } from './langchain-messages-driver.ts';
import { type Manners, official, proveMessagesClient, useMessagesFleet } from './messages-claims.ts';
import { vercelMessages } from './vercel-messages-driver.ts';

useMessagesFleet();

const callErrors = Object.fromEntries(
  Object.keys(official.errors).map((type) => [type, 'AI_APICallError']),
) as Manners['errors'];

/** Vercel's AI SDK has a single error class, ignores `x-should-retry`, and retries a 409 like a 503. */
const vercel: Manners = {
  keyIn: 'x-api-key',
  version: '2023-06-01',
  errors: callErrors,
  requests: { InferenceUpsellError: 3 },
  backoffMs: 1950,
};

const fromCache = (ai: string, provider: string, entry: string) => () =>
  vercelMessages({ ai: cachedModule(ai, entry), provider: cachedModule(provider, entry) });
proveMessagesClient(
  'AI SDK 5, anthropic',
  { ...vercel, omits: ['thinking disabled'] },
  fromCache('ai5', 'ai5-anthropic', 'dist/index.mjs'),
);
proveMessagesClient('AI SDK 7, anthropic', vercel, fromCache('ai', '@ai-sdk/anthropic', 'dist/index.js'));

proveMessagesClient(
  'LangChain (JS), anthropic',
  {
    ...official,
    errors: { ...official.errors, 'early end': 'TypeError' },
    backoffMs: 950,
    patient: true,
    ignoresRetryAfter: true,
  },
  langchainMessages,
);
