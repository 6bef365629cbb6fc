/** The only file that reads `process.env`; a test enforces it. The roots of the processes read settings here and pass them down. */

export type Environment = Readonly<Record<string, string | undefined>>;

export const environment: Environment = process.env;

/** A setting that is not secret, such as the path of a key file; undefined where the variable is unset, empty or blank. */
export function settingOf(variable: string, from: Environment = environment): string | undefined {
  return from[variable]?.trim() || undefined;
}

/** The level of the process log. */
export function logLevel(fallback = 'info'): string {
  return settingOf('HEADGATE_LOG_LEVEL') ?? fallback;
}
