/** Reads settings from the environment. This is the only file that reads `process.env`, and a test enforces that. */

export type Environment = Readonly<Record<string, string | undefined>>;

export const environment: Environment = process.env;

/** Reads a setting that is not secret, such as the path of a key file; undefined if the variable is unset, empty or blank. */
export function readSetting(variable: string, from: Environment = environment): string | undefined {
  return from[variable]?.trim() || undefined;
}

/** A setting has an invalid value. The message names the variable and its allowed values. */
class SettingInvalid extends Error {
  override readonly name = 'SettingInvalid';
}

const logLevels = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'];

/** Reads the level of the process log. Throws SettingInvalid. */
export function logLevel(fallback = 'info'): string {
  const level = readSetting('HEADGATE_LOG_LEVEL') ?? fallback;
  if (logLevels.includes(level)) return level;
  throw new SettingInvalid(`HEADGATE_LOG_LEVEL must be one of ${logLevels.join(', ')}`);
}

/** Names of variables that contain a secret, or the path of a secret's file. */
const secretVariable = /^HEADGATE_(?:.*_)?(?:TOKEN|KEY|SECRET|PASSWORD|CREDENTIAL|CERT|CA)(?:_|$)/;
/** Shorter values are not masked, because they protect nothing and occur inside other words. */
const secretLengthMin = 6;
const isPath = (value: string): boolean => /^(?:~|\.{0,2})\/\S+$|^[\w./-]+\.\w{1,8}$/.test(value);

/** Masks the values of secret variables in a text for people, because someone may set a token in place of a path. */
export function withoutSettings(text: string, from: Environment = environment): string {
  let shown = text;
  for (const [variable, set] of Object.entries(from)) {
    const value = set?.trim() ?? '';
    if (secretVariable.test(variable) && value.length >= secretLengthMin && !isPath(value))
      shown = shown.replaceAll(value, `(the value of ${variable})`);
  }
  return shown.replace(/-----BEGIN [\s\S]*?(?:-----END [^-]*-----|$)/g, '(a PEM block)');
}
