/** Proves, with a real Ollama, the claims that hold for every engine. */
import { proveEngine } from './claims.ts';
import { answerClaims } from './claims-answers.ts';
import { endClaims, stopClaims } from './claims-ends.ts';
import { featureClaims } from './claims-features.ts';
import { ollama } from './ollama.ts';

proveEngine(ollama, [...answerClaims, ...featureClaims, ...endClaims, ...stopClaims]);
