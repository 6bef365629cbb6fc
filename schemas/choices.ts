/**
 * Allowed values of enumerations. They are not in the schemas' files, because the command line loads faster without schemas.
 */

export const surfaces = ['openai', 'anthropic'] as const;
export const dialects = ['vllm', 'sglang', 'llamacpp', 'ollama'] as const;
export const roles = ['owner', 'admin', 'approver', 'member', 'viewer'] as const;
export const expiryChoices = ['never', '30d', '90d', '1y'] as const;
/** Whether prompts with a common prefix go to one node, which may have cached it (`prefix`), or to any (`none`). */
export const affinities = ['prefix', 'none'] as const;
export const keyStates = ['active', 'revoked', 'expired'] as const;
export const nodeStates = ['up', 'down', 'drained'] as const;
