/** Returns a member of an untrusted value, or undefined if the value is not an object or only inherits the member. */
export function member(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, name)
    ? Reflect.get(value, name)
    : undefined;
}
