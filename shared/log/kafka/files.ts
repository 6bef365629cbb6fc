/** Settings of Kafka whose files may be replaced while a process runs: each connection is opened with what they hold then. */
import type { Environment } from '../../runtime/settings.ts';
import { WatchedFiles } from '../../runtime/watched-files.ts';
import { type KafkaSettings, kafkaFilesFrom, kafkaSettingsFrom } from './settings.ts';

export class KafkaFiles {
  readonly #files: WatchedFiles<KafkaSettings>;
  /** Why the files cannot be used as they are now. */
  #fault: string | undefined;

  /** Throws KafkaSettingsInvalid. */
  constructor(environment: Environment) {
    this.#files = new WatchedFiles(kafkaFilesFrom(environment), () => kafkaSettingsFrom(environment));
  }

  get fault(): string | undefined {
    return this.#fault;
  }

  /** The former settings where the files cannot be used. */
  current(): KafkaSettings {
    try {
      if (this.#files.look()) this.#fault = undefined;
    } catch (error) {
      this.#fault = error instanceof Error ? error.message : String(error);
    }
    return this.#files.value;
  }
}
