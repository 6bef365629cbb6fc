/** On SIGTERM llama.cpp is silent for half a minute before it ends, so this runs next to the other claims. */

import { proveEngine } from './claims.ts';
import { stopClaims } from './claims-ends.ts';
import { llamacpp } from './llamacpp.ts';

proveEngine(llamacpp, stopClaims);
