/** How many rows a page of a list has: without a `limit`, and at most. */
export const pageRows = { default: 100, max: 1000 } as const;
