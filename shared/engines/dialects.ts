/** The table of each dialect. Adding an engine is a table here and its name in the vocabulary. */
import type { Dialect } from '../../schemas/names.ts';
import type { DialectTable } from './dialect.ts';
import { llamacpp } from './llamacpp.ts';
import { ollama } from './ollama.ts';
import { sglang } from './sglang.ts';
import { vllm } from './vllm.ts';

export const dialects: Readonly<Record<Dialect, DialectTable>> = { vllm, sglang, llamacpp, ollama };
