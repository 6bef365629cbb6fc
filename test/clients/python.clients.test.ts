/**
 * The Python libraries, with their defaults, against a whole fleet. They come from the environments that
 * `node test/clients/install.mjs` makes; without those the suite fails and says so.
 */
import { afterAll } from 'vitest';
import { type Manners, openaiErrors, proveClient, useClientFleet } from './claims.ts';
import { type PythonLibrary, pythonClient, stopPython } from './python-driver.ts';

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

const libraries: readonly (readonly [name: string, PythonLibrary, Manners])[] = [
  [
    'openai 1 (Python)',
    { module: 'openai', environment: 'openai1', has: ['embed', 'models'] },
    { ...official, errors: older },
  ],
  ['openai 3 (Python)', { module: 'openai', environment: 'openai3', has: ['embed', 'models'] }, official],
  ['LangChain (Python)', { module: 'langchain', environment: 'frameworks', has: ['embed'] }, langchain],
  [
    'LlamaIndex openai-like (Python)',
    { module: 'llama_index', environment: 'frameworks', has: ['embed'] },
    llamaIndex,
  ],
  ['openai 3 (Python), responses', { module: 'openai_responses', environment: 'openai3' }, responses],
  [
    'LangChain (Python), responses',
    { module: 'langchain', environment: 'frameworks', more: { responses: true } },
    { ...langchain, path: '/v1/responses' },
  ],
  [
    'LlamaIndex OpenAIResponses (Python)',
    { module: 'llama_index', environment: 'frameworks', more: { responses: true } },
    { ...llamaIndex, path: '/v1/responses' },
  ],
  ['pydantic-ai', { module: 'pydantic_ai', environment: 'responses' }, pydanticAi],
  ['Agents SDK (Python)', { module: 'agents', environment: 'responses' }, responses],
];

useClientFleet();
for (const [name, library, own] of libraries) proveClient(name, own, () => pythonClient(library));
afterAll(stopPython);
