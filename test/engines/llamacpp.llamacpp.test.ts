/** Proves, with a real llama.cpp server, the claims that hold for every engine. */

import { proveEngine } from './claims.ts';
import { answerClaims } from './claims-answers.ts';
import { endClaims } from './claims-ends.ts';
import { featureClaims } from './claims-features.ts';
import { llamacpp } from './llamacpp.ts';

proveEngine(llamacpp, [...answerClaims, ...featureClaims, ...endClaims]);
