/** Returns the CPU time, in ms, that this process spends on some work. Other processes on the machine do not lengthen it. */
export function cpuMsOf(work: () => void): number {
  const before = process.cpuUsage();
  work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}
