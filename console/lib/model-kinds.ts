/** What a model is for, as far as its name says so: a stack, a pool and the list of models have names alone. */
export const reranks = (model: string): boolean => /rerank/i.test(model);

/** The one to chat with; none of those that rerank, and one that embeds only where there is no other. */
export function chatModelOf(models: readonly string[]): string | undefined {
  const others = models.filter((model) => !reranks(model));
  return others.find((model) => !/embed/i.test(model)) ?? others[0];
}
