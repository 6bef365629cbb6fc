/** Default and maximum number of rows on a page of a list. */
export const pageRows = { default: 100, max: 1000 } as const;
