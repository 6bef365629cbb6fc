/** Module state with timers, such as a ticker. A process has one of each, although a simulation runs several processes. */

/** Identifies the process. Only a simulation replaces it. */
export const processScope: { current: object } = { current: {} };

/** Returns a function that returns this process's value, which it creates on first use. */
export function perProcess<Value>(create: () => Value): () => Value {
  const values = new WeakMap<object, Value>();
  return () => {
    const { current } = processScope;
    const value = values.get(current) ?? create();
    if (!values.has(current)) values.set(current, value);
    return value;
  };
}
