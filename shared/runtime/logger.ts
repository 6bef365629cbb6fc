/** Writes a process's log to stderr: JSON lines, or readable text on a terminal. Never logs keys, prompts or completions. */
import { type LogFn, type Logger as PinoLogger, pino } from 'pino';
import { type LogLevel, type LogText, logTextCode } from '../../schemas/records/log-events.ts';
import { wallClockMs } from './clock.ts';
import { RepeatedLines } from './repeated-lines.ts';

interface Line<Level extends LogLevel> {
  (fields: object, text: LogText<Level>): void;
  (text: LogText<Level>): void;
}

/** A logger whose methods accept only the texts that `schemas/records/log-events.ts` defines for their level. */
export type Logger = { readonly [Level in LogLevel]: Line<Level> } & Pick<
  PinoLogger,
  'isLevelEnabled' | 'levels'
>;

type Fault = 'warn' | 'error' | 'fatal';
/** A logger with only some levels, by default those for faults. */
export type LineLogger<Levels extends LogLevel = Fault> = {
  readonly [Level in Levels]: (fields: object, text: LogText<Level>) => void;
};

const redact = ['*.authorization', '*["x-api-key"]', '*.value', '*.token', 'authorization', 'value', 'token'];

/** A log line that is sent to the thread that owns the log. */
export type LoggedLine<Level extends Fault = Fault> = {
  [Each in Level]: { readonly level: Each; readonly fields: object; readonly text: LogText<Each> };
}[Level];

export function writeLine<Level extends Fault>(
  logger: LineLogger,
  { level, fields, text }: LoggedLine<Level>,
): void {
  logger[level](fields, text);
}

export function createLogger(name: string, level: string): Logger {
  const options = { name, level, redact, base: { name }, hooks: { logMethod: lineHook() } };
  if (!process.stderr.isTTY) return pino(options, pino.destination({ fd: 2, sync: true }));
  const target = {
    target: 'pino-pretty',
    options: { destination: 2, ignore: 'pid,hostname', singleLine: true },
  };
  return pino({ ...options, transport: target });
}

/** Whether repeated lines of a level are limited: faults that do not end the process, from 40 (warn) to below 60 (fatal). */
const isLimited = (level: number): boolean => level >= 40 && level < 60;

/** Returns a hook that adds an event code to each line, and writes faults with equal fields at most once a minute. */
export function lineHook(
  repeated = new RepeatedLines(),
): (this: PinoLogger, args: Parameters<LogFn>, method: LogFn, level: number) => void {
  return function (args, method, level) {
    const [first, second] = args as readonly unknown[];
    const text = typeof first === 'string' ? first : second;
    const event = typeof text === 'string' ? logTextCode(text) : undefined;
    if (event === undefined || first instanceof Error) return method.apply(this, args);
    const fields = typeof first === 'object' && first !== null ? first : {};
    const write = (leftOut: number): void =>
      method.apply(this, [{ event, ...fields, ...(leftOut > 0 && { repeated: leftOut }) }, text as string]);
    if (isLimited(level)) repeated.pass(text as string, fields, write);
    else write(0);
  };
}

export interface AccessLog {
  isEnabled(): boolean;
  /** Writes one line at level info. Undefined fields are omitted, and at least one field must be defined. */
  write(fields: object, text: LogText<'info'>): void;
}

/** Returns an access log that writes each request to the process log immediately. */
export function accessLogIn(logger: Logger): AccessLog {
  return {
    isEnabled: () => logger.isLevelEnabled('info'),
    write: (fields, text) => logger.info(fields, text),
  };
}

/**
 * Returns a function that buffers lines. They are written within 50 ms, or once half of the buffer is full. The caller never
 * waits. Lines that do not fit are dropped and counted. The buffer is written at exit, and lost only if a signal kills the
 * process.
 */
export function bufferedLines(
  fd: number,
  onDropped: (lines: number) => void,
  bytesMax = 1024 * 1024,
): (line: string) => void {
  let isEnding = false;
  let dropped = 0;
  const destination = pino.destination({
    fd,
    sync: false,
    contentMode: 'buffer',
    minLength: bytesMax / 2,
    maxWrite: bytesMax,
    maxLength: bytesMax,
    // Do not retry a write while the process exits, because the reader of the output may have stopped reading.
    retryEAGAIN: () => !isEnding,
  });
  destination.on('drop', () => {
    dropped += 1;
  });
  // Flush at scheduled times. The destination's own timer would wake an idle process twenty times per second.
  let isScheduled = false;
  const flushSoon = (): void => {
    if (isScheduled) return;
    isScheduled = true;
    setTimeout(() => {
      isScheduled = false;
      // Pass no callback, because with one the flush also calls fsync.
      destination.flush();
    }, 50).unref();
  };
  let lines = 0;
  let drainedLines = 0;
  destination.on('drain', () => {
    if (dropped > 0) onDropped(dropped);
    dropped = 0;
    // Flush again, because a write that started earlier may have left the newest lines in the buffer.
    if (drainedLines !== lines) flushSoon();
    drainedLines = lines;
  });
  // A failed write is retried with the next flush.
  destination.on('error', flushSoon);
  process.prependOnceListener('exit', () => {
    isEnding = true;
    try {
      destination.flushSync();
    } catch {
      // The last flush failed. Ignore that, because nobody reads the output any longer.
    }
    destination.destroy();
  });
  // The type of `write` allows only strings, but here it accepts buffers, which take a quarter of the time.
  return (line) => {
    destination.write(Buffer.from(line) as unknown as string);
    lines += 1;
    flushSoon();
  };
}

/**
 * Returns an access log in the process log's format. It writes within 50 ms, without delaying requests and without redaction.
 * Its fields are a fixed list of ids, names, numbers and fixed texts (`schemas/records/request-record.ts`). Each line is
 * serialised in one call, because serialising it with pino takes a tenth of a request's cost.
 */
export function createAccessLog(logger: Logger, name: string): AccessLog {
  if (process.stderr.isTTY) return accessLogIn(logger);
  const onDropped = (lines: number): void => logger.warn({ lines }, 'lines of the access log were dropped');
  const append = bufferedLines(2, onDropped);
  const head = `{"level":${logger.levels.values['info']},"time":`;
  const source = `,"name":${JSON.stringify(name)}`;
  return {
    isEnabled: () => logger.isLevelEnabled('info'),
    write: (fields, text) =>
      append(
        `${head}${wallClockMs()}${source},"event":"${logTextCode(text)}",${JSON.stringify(fields).slice(1, -1)},"msg":${JSON.stringify(text)}}\n`,
      ),
  };
}
