/** Guesses from a model's name whether it reranks, because stacks, the pool and the model list contain only names. */
export const reranks = (model: string): boolean => /rerank/i.test(model);

/** Picks a model for a chat example. It is never a reranker, and an embedding model only if there is nothing else. */
export function pickChatModel(models: readonly string[]): string | undefined {
  const others = models.filter((model) => !reranks(model));
  return others.find((model) => !/embed/i.test(model)) ?? others[0];
}
