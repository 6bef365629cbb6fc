/**
 * Tests llama.cpp after SIGTERM. It is silent for half a minute before it ends, so these claims have a file of their own that
 * runs in parallel with the others.
 */

import { proveEngine } from './claims.ts';
import { stopClaims } from './claims-ends.ts';
import { llamacpp } from './llamacpp.ts';

proveEngine(llamacpp, stopClaims);
