/** What `headgate doctor -o json` prints. */
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

/** `CODE level object`, of each that is not well, and of the examples of one that stands for many. */
export function faultsIn(text: string): string[] {
  return checksIn(text)
    .filter(isFault)
    .flatMap(({ code, level, examples = [], ...first }) =>
      [first, ...examples].map(({ object }) => [code, level, object].filter(Boolean).join(' ')),
    );
}
