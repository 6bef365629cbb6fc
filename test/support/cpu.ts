/** The processor time, ms, that this process takes for some work: other processes on the machine cannot lengthen it. */
export function cpuMsOf(work: () => void): number {
  const before = process.cpuUsage();
  work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}
