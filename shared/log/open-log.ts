/** Opens a log by its URL. Only this file parses `HEADGATE_LOG`. Errors must not repeat it, as it may contain a password. */
import { environment } from '../runtime/settings.ts';
import type { TimedLog, TopicAddress } from './core/control-log.ts';
import { type EmbeddedLogOptions, openEmbeddedLog } from './embedded/embedded-log.ts';
import type { KafkaFiles } from './kafka/files.ts';
import type { KafkaLogOptions } from './kafka/kafka-log.ts';

export type LogUrl =
  /** Folder that contains one SQLite file per topic. */
  | { readonly kind: 'sqlite'; readonly folder: string }
  /** Brokers to contact first, each as `host:port`. */
  | { readonly kind: 'kafka'; readonly brokers: readonly string[] };

/** Thrown if a log URL is invalid or of an unsupported kind. */
export class LogUrlInvalid extends Error {
  override readonly name = 'LogUrlInvalid';
}

const supported = 'use sqlite:FOLDER, for example sqlite:./data/log, or kafka://host:port,host:port';

/** Parses `sqlite:FOLDER` or `kafka://host:port,…`. Throws `LogUrlInvalid`. */
export function parseLogUrl(url: string): LogUrl {
  const separator = url.indexOf(':');
  const rest = url.slice(separator + 1);
  switch (url.slice(0, Math.max(separator, 0))) {
    case 'sqlite':
      return { kind: 'sqlite', folder: parseFolder(rest) };
    case 'kafka':
      return { kind: 'kafka', brokers: parseBrokers(rest) };
    default:
      throw new LogUrlInvalid(`the log address is of an unknown kind; ${supported}`);
  }
}

/** Parses a folder, absolute as in `sqlite:///path`. Refuses `sqlite://host/path`, which would mean another machine. */
function parseFolder(rest: string): string {
  if (rest.trim() === '' || rest.includes('\0') || /^\/\/[^/]/.test(rest))
    throw new LogUrlInvalid(`the log address does not name a folder; ${supported}`);
  return rest.replace(/^\/\/\//, '/');
}

function parseBrokers(rest: string): string[] {
  const brokers = rest.replace(/^\/\//, '').split(',');
  const valid = rest.startsWith('//') && brokers.every((broker) => brokerPattern.test(broker));
  if (!valid) throw new LogUrlInvalid('the address of a Kafka log must be kafka://host:port,host:port');
  return brokers;
}

/** Matches a host name, an IPv4 address or a bracketed IPv6 address, followed by a port. */
const brokerPattern = /^(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):\d{1,5}$/;

/** Matches names that Kafka allows for topics. In SQLite, the check keeps a topic's file inside the log's folder. */
const topicPattern = /^(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}$/;

export type OpenLogOptions = Omit<EmbeddedLogOptions, 'folder' | 'address'>;

/** Opens the log of one topic. Rejects with `LogUrlInvalid`, `LogUnavailable` or `LogReplaced`. */
export function openLog(url: string, address: TopicAddress, options: OpenLogOptions = {}): Promise<TimedLog> {
  return logOpener.open(url, address, options);
}

/** Function that opens every log. Only simulations replace it, because they keep their logs in memory. */
export const logOpener = { open: openByUrl };

async function openByUrl(url: string, address: TopicAddress, options: OpenLogOptions): Promise<TimedLog> {
  const { topic, partition = 0 } = address;
  if (!topicPattern.test(topic) || !Number.isSafeInteger(partition) || partition < 0)
    throw new LogUrlInvalid('topic names have letters, digits, dots, hyphens; partitions start at 0');
  const parsed = parseLogUrl(url);
  switch (parsed.kind) {
    case 'sqlite':
      return await openEmbeddedLog({ ...options, folder: parsed.folder, address });
    case 'kafka':
      return await openKafka(parsed.brokers, { topic, partition, ...trimming(options) });
  }
}

/** Imports kafkajs only when a Kafka log is opened. */
async function openKafka(brokers: readonly string[], options: KafkaLogOptions): Promise<TimedLog> {
  const { openKafkaLog } = await import('./kafka/kafka-log.ts');
  const files = await kafkaFiles();
  return await openKafkaLog(brokers, files.current(), options, files);
}

async function kafkaFiles(): Promise<KafkaFiles> {
  const { KafkaSettingsInvalid } = await import('./kafka/settings.ts');
  const { KafkaFiles } = await import('./kafka/files.ts');
  try {
    return new KafkaFiles(environment);
  } catch (error) {
    if (error instanceof KafkaSettingsInvalid) throw new LogUrlInvalid(error.message, { cause: error });
    throw error;
  }
}

function trimming({ keepSeconds, allowTrimmed, mustExist }: OpenLogOptions) {
  return {
    ...(keepSeconds === undefined ? {} : { keepSeconds }),
    ...(allowTrimmed === undefined ? {} : { allowTrimmed }),
    ...(mustExist === undefined ? {} : { mustExist }),
  };
}
