/** Proves, with a real vLLM, the claims that hold for every engine. */
import { proveEngine } from './claims.ts';
import { answerClaims } from './claims-answers.ts';
import { endClaims, stopClaims } from './claims-ends.ts';
import { featureClaims } from './claims-features.ts';
import { vllm } from './hf-engines.ts';

proveEngine(vllm, [...answerClaims, ...featureClaims, ...endClaims, ...stopClaims]);
