/** The only file that reads `process.env`; a test enforces it. The roots of the processes read settings here and pass them down. */

export type Environment = Readonly<Record<string, string | undefined>>;

export const environment: Environment = process.env;

/** A setting that is not secret, such as the path of a key file; undefined where the variable is unset, empty or blank. */
export function readSetting(variable: string, from: Environment = environment): string | undefined {
  return from[variable]?.trim() || undefined;
}

/** The message names the variable and what it may be. */
class SettingInvalid extends Error {
  override readonly name = 'SettingInvalid';
}

const logLevels = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'];

/** The level of the process log. Throws SettingInvalid. */
export function logLevel(fallback = 'info'): string {
  const level = readSetting('HEADGATE_LOG_LEVEL') ?? fallback;
  if (logLevels.includes(level)) return level;
  throw new SettingInvalid(`HEADGATE_LOG_LEVEL must be one of ${logLevels.join(', ')}`);
}

/** Variables whose value is a secret, or names the file of one. */
const secretVariable = /^HEADGATE_(?:.*_)?(?:TOKEN|KEY|SECRET|PASSWORD|CREDENTIAL|CERT|CA)(?:_|$)/;
/** A shorter value protects nothing, and is part of other words. */
const secretLengthMin = 6;
const isPath = (value: string): boolean => /^(?:~|\.{0,2})\/\S+$|^[\w./-]+\.\w{1,8}$/.test(value);

/**
 * A text for people without the values of such variables, whichever of them was set to what: a token where a path is to be
 * would otherwise be in the error that names the path. What has the form of a path is shown.
 */
export function withoutSettings(text: string, from: Environment = environment): string {
  let shown = text;
  for (const [variable, set] of Object.entries(from)) {
    const value = set?.trim() ?? '';
    if (secretVariable.test(variable) && value.length >= secretLengthMin && !isPath(value))
      shown = shown.replaceAll(value, `(the value of ${variable})`);
  }
  return shown.replace(/-----BEGIN [\s\S]*?(?:-----END [^-]*-----|$)/g, '(a PEM block)');
}
