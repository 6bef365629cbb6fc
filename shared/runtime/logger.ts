/**
 * The log of a process on stderr: JSON lines, or readable ones on a terminal. Callers never pass keys, prompts or answers.
 */
import { type LogFn, type Logger as PinoLogger, pino } from 'pino';
import { type LogLevel, type LogText, logTextCode } from '../../schemas/records/log-events.ts';
import { wallClockMs } from './clock.ts';
import { RepeatedLines } from './repeated-lines.ts';

interface Line<Level extends LogLevel> {
  (fields: object, text: LogText<Level>): void;
  (text: LogText<Level>): void;
}

/** A logger whose levels accept only their texts from schemas/records/log-events.ts. */
export type Logger = { readonly [Level in LogLevel]: Line<Level> } & Pick<
  PinoLogger,
  'isLevelEnabled' | 'levels'
>;

type Fault = 'warn' | 'error' | 'fatal';
/** A logger with only the methods that most parts need. */
export type LineLogger<Levels extends LogLevel = Fault> = {
  readonly [Level in Levels]: (fields: object, text: LogText<Level>) => void;
};

const redact = ['*.authorization', '*["x-api-key"]', '*.value', '*.token', 'authorization', 'value', 'token'];

/** A line on its way to the thread that owns the log. */
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

/** Whether repeated lines are limited: levels that report a fault without ending the process (40 warn, 60 fatal). */
const isLimited = (level: number): boolean => level >= 40 && level < 60;

/** Adds the line's event code to its fields, and writes a fault with identical fields at most once a minute. */
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
  /** Writes one line of level info. Undefined fields are omitted; at least one field must be defined. */
  write(fields: object, text: LogText<'info'>): void;
}

/** An access log that writes each request to the process log at once. */
export function accessLogIn(logger: Logger): AccessLog {
  return {
    isEnabled: () => logger.isLevelEnabled('info'),
    write: (fields, text) => logger.info(fields, text),
  };
}

/**
 * Returns a function that buffers lines and writes them within 50 ms, or once half of the buffer is used. The caller never
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
    // An ending process does not wait for a reader that has stopped reading.
    retryEAGAIN: () => !isEnding,
  });
  destination.on('drop', () => {
    dropped += 1;
  });
  // The destination's own periodic flush would wake an idle process twenty times a second.
  let isScheduled = false;
  const flushSoon = (): void => {
    if (isScheduled) return;
    isScheduled = true;
    setTimeout(() => {
      isScheduled = false;
      // Without a callback, because a flush with one also calls fsync.
      destination.flush();
    }, 50).unref();
  };
  let lines = 0;
  let drainedLines = 0;
  destination.on('drain', () => {
    if (dropped > 0) onDropped(dropped);
    dropped = 0;
    // A write that began earlier may have left the newest lines in the buffer.
    if (drainedLines !== lines) flushSoon();
    drainedLines = lines;
  });
  // The next flush retries a failed write.
  destination.on('error', flushSoon);
  process.prependOnceListener('exit', () => {
    isEnding = true;
    try {
      destination.flushSync();
    } catch {
      // Nobody reads the output any more.
    }
    destination.destroy();
  });
  // The type of `write` allows only strings, but this content mode accepts buffers, which take a quarter of the time.
  return (line) => {
    destination.write(Buffer.from(line) as unknown as string);
    lines += 1;
    flushSoon();
  };
}

/**
 * An access log in the process log's format without redaction, written within 50 ms without delaying a request. Its fields
 * are a fixed list of ids, names, numbers and fixed texts (schemas/records/request-record.ts). Each line is serialised in one
 * call, because pino's serialisation takes a tenth of a request's cost.
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
