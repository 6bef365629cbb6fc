/** Proves, with a real SGLang, the claims that hold for every engine. */
import { proveEngine } from './claims.ts';
import { answerClaims } from './claims-answers.ts';
import { endClaims, stopClaims } from './claims-ends.ts';
import { featureClaims } from './claims-features.ts';
import { sglang } from './hf-engines.ts';

proveEngine(sglang, [...answerClaims, ...featureClaims, ...endClaims, ...stopClaims]);
