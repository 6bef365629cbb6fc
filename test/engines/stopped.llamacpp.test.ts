/** After SIGTERM, llama.cpp is silent for half a minute before it ends, so this file runs beside the other claims. */

import { proveEngine } from './claims.ts';
import { stopClaims } from './claims-ends.ts';
import { llamacpp } from './llamacpp.ts';

proveEngine(llamacpp, stopClaims);
