/** Purpose of a model, guessed from its name, because stacks, the pool and the model list contain only names. */
export const reranks = (model: string): boolean => /rerank/i.test(model);

/** Model for a chat example. Never a reranker, and an embedding model only if there is no other. */
export function pickChatModel(models: readonly string[]): string | undefined {
  const others = models.filter((model) => !reranks(model));
  return others.find((model) => !/embed/i.test(model)) ?? others[0];
}
