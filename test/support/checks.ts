/** One check in the output of `headgate doctor -o json`. */
export interface Check {
  readonly code: string;
  readonly level: string;
  readonly object?: string;
  readonly text: string;
  readonly next?: string;
  readonly examples?: readonly { readonly object?: string }[];
}

export function checksIn(text: string): readonly Check[] {
  return (JSON.parse(text) as { readonly checks: readonly Check[] }).checks;
}

export const isFault = ({ level }: Check): boolean => level !== 'ok';

/**
 * Returns `CODE level object` for each failed check. A check that stands for several objects adds a line for each of its
 * examples.
 */
export function faultsIn(text: string): string[] {
  return checksIn(text)
    .filter(isFault)
    .flatMap(({ code, level, examples = [], ...first }) =>
      [first, ...examples].map(({ object }) => [code, level, object].filter(Boolean).join(' ')),
    );
}
