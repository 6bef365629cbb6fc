/** Proves the common engine claims for a real SGLang. */
import { proveEngine } from './claims.ts';
import { answerClaims } from './claims-answers.ts';
import { endClaims, stopClaims } from './claims-ends.ts';
import { featureClaims } from './claims-features.ts';
import { sglang } from './hf-engines.ts';

proveEngine(sglang, [...answerClaims, ...featureClaims, ...endClaims, ...stopClaims]);
