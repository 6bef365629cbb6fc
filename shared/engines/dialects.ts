/** Dialect tables of all engines. Nothing else may depend on an engine's name. To add an engine, add a table and its name. */
import type { Dialect } from '../../schemas/names.ts';
import type { DialectTable } from './dialect.ts';
import { llamacpp } from './llamacpp.ts';
import { ollama } from './ollama.ts';
import { sglang } from './sglang.ts';
import { vllm } from './vllm.ts';

export const dialects: Readonly<Record<Dialect, DialectTable>> = { vllm, sglang, llamacpp, ollama };
