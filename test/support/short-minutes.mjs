// Loaded into a process with --import: what it does each minute it does every 25 ms.
const { setInterval } = globalThis;
globalThis.setInterval = (work, ms, ...rest) => setInterval(work, ms === 60_000 ? 25 : ms, ...rest);
