/** Reads settings from the environment. A test ensures that no other file reads `process.env`. */

export type Environment = Readonly<Record<string, string | undefined>>;

export const environment: Environment = process.env;

/** Reads a setting that is not secret, such as a path. Returns undefined if the variable is unset, empty or blank. */
export function readSetting(variable: string, from: Environment = environment): string | undefined {
  return from[variable]?.trim() || undefined;
}

/** Thrown if a setting has an invalid value. The message states the variable and the allowed values. */
class SettingInvalid extends Error {
  override readonly name = 'SettingInvalid';
}

const logLevels = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'];

/** Reads the log level of the process. Throws `SettingInvalid`. */
export function logLevel(fallback = 'info'): string {
  const level = readSetting('HEADGATE_LOG_LEVEL') ?? fallback;
  if (logLevels.includes(level)) return level;
  throw new SettingInvalid(`HEADGATE_LOG_LEVEL must be one of ${logLevels.join(', ')}`);
}

/** Matches names of variables that contain a secret or the path of a file with a secret. */
const secretVariable = /^HEADGATE_(?:.*_)?(?:TOKEN|KEY|SECRET|PASSWORD|CREDENTIAL|CERT|CA)(?:_|$)/;
/** Minimum length of values to be masked. Shorter ones protect nothing and occur inside other words. */
const secretLengthMin = 6;
const isPath = (value: string): boolean => /^(?:~|\.{0,2})\/\S+$|^[\w./-]+\.\w{1,8}$/.test(value);

/** Masks the values of secret variables in a text for people, because someone may set a token instead of a path. */
export function withoutSettings(text: string, from: Environment = environment): string {
  let shown = text;
  for (const [variable, set] of Object.entries(from)) {
    const value = set?.trim() ?? '';
    if (secretVariable.test(variable) && value.length >= secretLengthMin && !isPath(value))
      shown = shown.replaceAll(value, `(the value of ${variable})`);
  }
  return shown.replace(/-----BEGIN [\s\S]*?(?:-----END [^-]*-----|$)/g, '(a PEM block)');
}
