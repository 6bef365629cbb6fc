/**
 * Keeps the limit exchange's state across restarts: the process id, so that the next process can end its predecessor's claims
 * in flight, and the number of live gateways, which determines this gateway's share while the log is unreachable.
 */
import { rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { textOfNamed } from '../../shared/runtime/named-file.ts';

const fileBytesMax = 64 * 1024 * 1024;
const stateSchema = z.object({ process: z.string().min(1).max(64), live: z.int().min(1).max(100_000) });
export type ExchangeState = z.infer<typeof stateSchema>;

export class ExchangeFile {
  readonly #path: string;
  #writing: Promise<void> | undefined;
  #kept: ExchangeState | undefined;
  #wanted: ExchangeState | undefined;

  constructor(dataDir: string) {
    this.#path = join(dataDir, 'exchange.json');
    this.#kept = this.#read();
  }

  /** State stored by the previous process, or undefined if the file is damaged. That process's claims then end later. */
  get kept(): ExchangeState | undefined {
    return this.#kept;
  }

  /** Stores the state in the background. If the write fails, the next call tries again. */
  keep(state: ExchangeState): void {
    if (state.process === this.#kept?.process && state.live === this.#kept.live) return;
    this.#wanted = state;
    this.#writing ??= this.#writeAll().finally(() => {
      this.#writing = undefined;
    });
  }

  async close(): Promise<void> {
    await this.#writing;
  }

  #read(): ExchangeState | undefined {
    try {
      return stateSchema.parse(JSON.parse(textOfNamed(this.#path, fileBytesMax)));
    } catch {
      return undefined;
    }
  }

  async #writeAll(): Promise<void> {
    while (this.#wanted !== undefined) {
      const state = this.#wanted;
      this.#wanted = undefined;
      const part = `${this.#path}.part`;
      try {
        // Remove what an earlier process left, or a symbolic link. No other process writes to a locked data folder.
        await rm(part, { force: true });
        await writeFile(part, JSON.stringify(state), { flag: 'wx', mode: 0o600 });
        await rename(part, this.#path);
        this.#kept = state;
      } catch {
        return;
      }
    }
  }
}
