/**
 * The words of fields that have one of a few. Apart from their schemas, because a command line needs the words alone, and
 * the schemas cost more to load than the rest of it.
 */

export const surfaces = ['openai', 'anthropic'] as const;
export const dialects = ['vllm', 'sglang', 'llamacpp', 'ollama'] as const;
export const roles = ['owner', 'admin', 'approver', 'member', 'viewer'] as const;
export const expiryChoices = ['never', '30d', '90d', '1y'] as const;
/** `prefix`: prompts that begin alike go to one node, which may have them cached. `none`: to any. */
export const affinities = ['prefix', 'none'] as const;
export const keyStates = ['active', 'revoked', 'expired'] as const;
export const nodeStates = ['up', 'down', 'drained'] as const;
