/** State that exists once per process, such as a ticker. A simulation runs several processes, so it is not module state. */

/** Identifies the process. Only a simulation replaces it. */
export const processScope: { current: object } = { current: {} };

/** Returns a function that returns this process's value. The value is created on first use. */
export function perProcess<Value>(create: () => Value): () => Value {
  const values = new WeakMap<object, Value>();
  return () => {
    const { current } = processScope;
    const value = values.get(current) ?? create();
    if (!values.has(current)) values.set(current, value);
    return value;
  };
}
