// Loaded into a process with --import. Runs one-minute timers every 25 ms instead.
const { setInterval } = globalThis;
globalThis.setInterval = (work, ms, ...rest) => setInterval(work, ms === 60_000 ? 25 : ms, ...rest);
