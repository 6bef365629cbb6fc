/** Blocks this thread like a suspended or starved process: no timer fires and no socket is read. */
export function stall(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}
