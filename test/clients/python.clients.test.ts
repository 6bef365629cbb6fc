/**
 * Tests the Python libraries with their default settings against a whole fleet. `node test/clients/install.mjs` creates their
 * environments. If these are missing, the suite fails with a message that says so.
 */
import { afterAll } from 'vitest';
import { type Manners, openaiErrors, proveClient, useClientFleet } from './claims.ts';
import { type PythonLibrary, pythonClient, stopPython } from './python-driver.ts';

const official: Manners = {
  errors: {
    ...openaiErrors,
    ContextWindowExceededError: 'APIStatusError',
    'early end': 'APIConnectionError',
  },
  backoffMs: 350,
  setsHost: true,
};

/** Errors of libraries built on an older official library, which passes on the errors of its HTTP client. */
const older = { ...official.errors, 'early end': 'RemoteProtocolError' };

/** LangChain has error classes of its own, derived from the official ones. */
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

/** LlamaIndex repeats each call three times, and the official library under it sends each of them four times. */
const llamaIndex: Manners = { ...official, errors: older, requests: { InferenceUnavailableError: 12 } };

const responses: Manners = { ...official, path: '/v1/responses' };

/** Pydantic AI has error classes of its own, grouped by what the caller can do. */
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
