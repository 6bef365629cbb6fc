/** Kafka settings whose files may be replaced while the process runs. Each new connection uses their current content. */
import type { Environment } from '../../runtime/settings.ts';
import { WatchedFiles } from '../../runtime/watched-files.ts';
import { type KafkaSettings, kafkaFilePaths, readKafkaSettings } from './settings.ts';

export class KafkaFiles {
  readonly #files: WatchedFiles<KafkaSettings>;
  /** Reason why the settings in the current files cannot be used. Undefined if they can. */
  #fault: string | undefined;

  /** Reads the settings for the first time. Throws `KafkaSettingsInvalid`. */
  constructor(environment: Environment) {
    this.#files = new WatchedFiles(kafkaFilePaths(environment), () => readKafkaSettings(environment));
  }

  get fault(): string | undefined {
    return this.#fault;
  }

  /** Returns the current settings, or the last valid ones if the current files cannot be used. */
  current(): KafkaSettings {
    try {
      if (this.#files.look()) this.#fault = undefined;
    } catch (error) {
      this.#fault = error instanceof Error ? error.message : String(error);
    }
    return this.#files.value;
  }
}
