/** llama.cpp told to stop says nothing for half a minute before it goes, so this runs beside the other claims. */

import { proveEngine } from './claims.ts';
import { stopClaims } from './claims-ends.ts';
import { llamacpp } from './llamacpp.ts';

proveEngine(llamacpp, stopClaims);
