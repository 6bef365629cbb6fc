/**
 * Tests the npm libraries in all versions in use, with their default settings, against a whole fleet. `node
 * test/clients/install.mjs` installs them. Packages that require Node 22 run on Node 20 too.
 */
import { agentsClient } from './agents-driver.ts';
import { cachedModule } from './cache.ts';
import { type Manners, openaiErrors, proveClient, responsesManners, useClientFleet } from './claims.ts';
import { langchainClient } from './langchain-driver.ts';
import { llamaIndexClient } from './llama-index-driver.ts';
import { openaiClient } from './openai-driver.ts';
import { proveReader } from './response-streams.ts';
import { responsesClient } from './responses-driver.ts';
import { type VercelPackages, vercelClient } from './vercel-driver.ts';

useClientFleet();

const official: Manners = { errors: openaiErrors, backoffMs: 350 };

/** The oldest version uses node-fetch, which throws errors of its own and lets the caller set the Host header. */
const oldest: Manners = { ...official, errors: { ...openaiErrors, 'early end': 'Error' }, setsHost: true };

for (const [version, manners] of [
  [4, oldest],
  [5, official],
  [6, official],
  [7, official],
] as const)
  proveClient(`openai ${version}`, manners, async () =>
    openaiClient(`openai ${version}`, (await import(cachedModule(`openai${version}`, 'index.mjs'))).default),
  );

for (const version of [6, 7]) {
  const name = `openai ${version}, responses`;
  const open = async () => (await import(cachedModule(`openai${version}`, 'index.mjs'))).default;
  proveClient(name, responsesManners, async () => responsesClient(name, await open()));
  proveReader(name, open);
}

const callError = Object.fromEntries(Object.keys(openaiErrors).map((type) => [type, 'AI_APICallError']));

/** Vercel's AI SDK has a single error class, ignores `x-should-retry`, and retries a 409 like a 503. */
const vercel: Manners = {
  errors: callError as Manners['errors'],
  requests: { InferenceUpsellError: 3 },
  backoffMs: 1950,
};

const vercelPackages: readonly (readonly [
  name: string,
  ai: string,
  provider: string,
  VercelPackages['kind'],
])[] = [
  ['AI SDK 5, openai-compatible', 'ai5', 'ai5-openai-compatible', 'openai-compatible'],
  ['AI SDK 5, openai.chat', 'ai5', 'ai5-openai', 'openai.chat'],
  ['AI SDK 7, openai-compatible', 'ai', '@ai-sdk/openai-compatible', 'openai-compatible'],
  ['AI SDK 7, openai.chat', 'ai', '@ai-sdk/openai', 'openai.chat'],
  ['AI SDK 7, openai', 'ai', '@ai-sdk/openai', 'openai'],
  ['AI SDK 7, open-responses', 'ai', '@ai-sdk/open-responses', 'open-responses'],
];
for (const [name, ai, provider, kind] of vercelPackages) {
  const asksForResponses = kind === 'openai' || kind === 'open-responses';
  const manners: Manners = {
    ...vercel,
    ...(kind !== 'openai-compatible' && { fixedFields: true }),
    ...(asksForResponses && { path: '/v1/responses' }),
  };
  const entry = ai === 'ai5' ? 'dist/index.mjs' : 'dist/index.js';
  proveClient(name, manners, () =>
    vercelClient(name, { ai: cachedModule(ai, entry), provider: cachedModule(provider, entry), kind }),
  );
}

/** LangChain waits with a backoff of its own and ignores Retry-After. */
const langchain: Manners = { errors: openaiErrors, backoffMs: 950, patient: true, ignoresRetryAfter: true };
proveClient('LangChain (JS)', langchain, () => langchainClient('LangChain (JS)'));
proveClient('LangChain (JS), responses', { ...langchain, path: '/v1/responses' }, () =>
  langchainClient('LangChain (JS), responses', { useResponsesApi: true }),
);

/** The Agents SDK reads stream events one by one, so it reports the error of the connection. */
const agents: Manners = { ...responsesManners, errors: openaiErrors };
proveClient('Agents SDK (JS)', agents, () => agentsClient('Agents SDK (JS)'));

proveClient('LlamaIndex (JS)', { ...official, patient: true }, () => llamaIndexClient('LlamaIndex (JS)'));
