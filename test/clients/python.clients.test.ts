/**
 * The Python libraries, with their defaults, against a whole fleet. They come from the environments that
 * `node test/clients/install.mjs` makes; without those the suite fails and says so.
 */
import { afterAll } from 'vitest';
import { cached } from './cache.ts';
import { type Manners, openaiErrors, proveClient, useClientFleet } from './claims.ts';
import { type PythonClient, type PythonLibrary, pythonClient } from './python-driver.ts';

/** The official library as it is now. */
const official: Manners = {
  errors: {
    ...openaiErrors,
    ContextWindowExceededError: 'APIStatusError',
    'early end': 'APIConnectionError',
  },
  backoffMs: 350,
  setsHost: true,
};

/** Those built on an older official library, which lets the error of its HTTP client through. */
const older = { ...official.errors, 'early end': 'RemoteProtocolError' };

/** LangChain has classes of its own, derived from the official ones. */
const langchain: Manners = {
  ...official,
  errors: {
    ...older,
    Unauthorized: 'OpenAIAuthenticationError',
    UnsupportedShapeError: 'OpenAIInvalidRequestError',
    InferenceUnavailableError: 'OpenAIAPIError',
    ModelNotInPlanError: 'OpenAIPermissionDeniedError',
    DedicatedOnlyModelError: 'OpenAIModelNotFoundError',
    TargetNotServingError: 'OpenAIModelNotFoundError',
  },
};

/** LlamaIndex repeats three times what the official library under it has sent four times. */
const llamaIndex: Manners = { ...official, errors: older, requests: { InferenceUnavailableError: 12 } };

const responses: Manners = { ...official, path: '/v1/responses' };

/** It has classes of its own, by what may be done about them. */
const pydanticAi: Manners = {
  ...responses,
  errors: {
    Unauthorized: 'ModelAuthenticationError',
    UnsupportedShapeError: 'ModelRequestRejectedError',
    InferenceUnavailableError: 'ModelUnavailableError',
    ModelNotInPlanError: 'ModelAuthenticationError',
    DedicatedOnlyModelError: 'ModelNotFoundError',
    TargetNotServingError: 'ModelNotFoundError',
    InferenceUpsellError: 'ModelHTTPError',
    ContextWindowExceededError: 'ModelHTTPError',
    'early end': 'ModelConnectionError',
  },
};

const libraries: readonly { name: string; library: PythonLibrary; manners: Manners }[] = [
  {
    name: 'openai 1 (Python)',
    library: { module: 'openai', python: cached('python-openai1/bin/python'), has: ['embed', 'models'] },
    manners: { ...official, errors: older },
  },
  {
    name: 'openai 3 (Python)',
    library: { module: 'openai', python: cached('python-openai3/bin/python'), has: ['embed', 'models'] },
    manners: official,
  },
  {
    name: 'LangChain (Python)',
    library: { module: 'langchain', python: cached('python-frameworks/bin/python'), has: ['embed'] },
    manners: langchain,
  },
  {
    name: 'LlamaIndex openai-like (Python)',
    library: { module: 'llama_index', python: cached('python-frameworks/bin/python'), has: ['embed'] },
    manners: llamaIndex,
  },
  {
    name: 'openai 3 (Python), responses',
    library: { module: 'openai_responses', python: cached('python-openai3/bin/python'), has: [] },
    manners: responses,
  },
  {
    name: 'LangChain (Python), responses',
    library: { module: 'langchain_responses', python: cached('python-frameworks/bin/python'), has: [] },
    manners: { ...langchain, path: '/v1/responses' },
  },
  {
    name: 'LlamaIndex OpenAIResponses (Python)',
    library: { module: 'llama_index_responses', python: cached('python-frameworks/bin/python'), has: [] },
    manners: { ...llamaIndex, path: '/v1/responses' },
  },
  {
    name: 'pydantic-ai',
    library: { module: 'pydantic_ai', python: cached('python-responses/bin/python'), has: [] },
    manners: pydanticAi,
  },
  {
    name: 'Agents SDK (Python)',
    library: { module: 'agents', python: cached('python-responses/bin/python'), has: [] },
    manners: responses,
  },
];

useClientFleet();
const opened: PythonClient[] = [];
afterAll(async () => {
  await Promise.all(opened.map((client) => client.stop()));
});
for (const { name, library, manners: own } of libraries)
  proveClient(name, own, async () => {
    const client = await pythonClient(library);
    opened.push(client);
    return client;
  });
