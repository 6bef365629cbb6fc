/** All dialect tables. No other code may depend on an engine's name. To add an engine, add its table and its name here. */
import type { Dialect } from '../../schemas/names.ts';
import type { DialectTable } from './dialect.ts';
import { llamacpp } from './llamacpp.ts';
import { ollama } from './ollama.ts';
import { sglang } from './sglang.ts';
import { vllm } from './vllm.ts';

export const dialects: Readonly<Record<Dialect, DialectTable>> = { vllm, sglang, llamacpp, ollama };
