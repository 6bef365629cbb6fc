// Loaded into a process with --import. Makes one-minute timers fire every 25 ms instead.
const { setInterval } = globalThis;
globalThis.setInterval = (work, ms, ...rest) => setInterval(work, ms === 60_000 ? 25 : ms, ...rest);
