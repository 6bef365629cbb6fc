/** Reads TLS and SASL settings for the brokers from the environment. Error messages never contain a value. */
import { readFileSync } from 'node:fs';
import { createSecureContext } from 'node:tls';
import { readForeignSecret, readProtectedSetting, SecretUnusable } from '../../runtime/secrets.ts';
import type { Environment } from '../../runtime/settings.ts';

export interface KafkaTls {
  readonly ca?: string;
  readonly cert?: string;
  readonly key?: string;
}

export interface KafkaSasl {
  readonly mechanism: 'plain' | 'scram-sha-256' | 'scram-sha-512';
  readonly username: string;
  readonly password: string;
}

export interface KafkaSettings {
  readonly tls?: KafkaTls;
  readonly sasl?: KafkaSasl;
}

/** Thrown if a HEADGATE_KAFKA_* variable is invalid. The message contains the variable's name. */
export class KafkaSettingsInvalid extends Error {
  override readonly name = 'KafkaSettingsInvalid';
}

const prefix = 'HEADGATE_KAFKA_';
const mechanisms = ['plain', 'scram-sha-256', 'scram-sha-512'] as const;

/**
 * Reads HEADGATE_KAFKA_TLS (`system` trusts the machine's certificate authorities), _TLS_CA, _TLS_CERT and _TLS_KEY (PEM
 * files), and _SASL_MECHANISM, _SASL_USERNAME and _SASL_PASSWORD. Throws `KafkaSettingsInvalid`.
 */
export function readKafkaSettings(environment: Environment): KafkaSettings {
  const tls = readTls(environment);
  const sasl = readSasl(environment);
  return { ...(tls ? { tls } : {}), ...(sasl ? { sasl } : {}) };
}

/** Paths of the settings files. Their content may change while a process runs. */
export function kafkaFilePaths(environment: Environment): string[] {
  return ['TLS_CA', 'TLS_CERT', 'TLS_KEY', 'SASL_PASSWORD_FILE'].flatMap(
    (name) => environment[prefix + name]?.trim() || [],
  );
}

function readTls(environment: Environment): KafkaTls | undefined {
  const system = read(readProtectedSetting, 'TLS', environment);
  if (system && system !== 'system') throw new KafkaSettingsInvalid(`${prefix}TLS must be system or unset`);
  const ca = pemFile(environment, 'TLS_CA');
  const cert = pemFile(environment, 'TLS_CERT');
  const key = pemFile(environment, 'TLS_KEY');
  if ((cert === undefined) !== (key === undefined))
    throw new KafkaSettingsInvalid(`${prefix}TLS_CERT and ${prefix}TLS_KEY must be given together`);
  if (!system && ca === undefined && cert === undefined) return undefined;
  const tls = { ...(ca ? { ca } : {}), ...(cert && key ? { cert, key } : {}) };
  try {
    createSecureContext(tls);
  } catch (error) {
    const names = `${prefix}TLS_CA, _TLS_CERT and _TLS_KEY`;
    throw new KafkaSettingsInvalid(
      `the files of ${names} must contain an authority, or a certificate and its key`,
      {
        cause: error,
      },
    );
  }
  return tls;
}

function pemFile(environment: Environment, name: string): string | undefined {
  const path = read(readProtectedSetting, name, environment);
  if (!path) return undefined;
  let pem: string;
  try {
    pem = readFileSync(path, 'utf8');
  } catch (error) {
    throw new KafkaSettingsInvalid(`the file of ${prefix}${name} cannot be read`, { cause: error });
  }
  if (!pem.includes('-----BEGIN ')) throw new KafkaSettingsInvalid(`the file of ${prefix}${name} is not PEM`);
  return pem;
}

function readSasl(environment: Environment): KafkaSasl | undefined {
  const [mechanism, username, password] = ['SASL_MECHANISM', 'SASL_USERNAME', 'SASL_PASSWORD'].map((name) =>
    read(readForeignSecret, name, environment),
  );
  if (!mechanism && !username && !password) return undefined;
  if (!mechanism || !username || !password)
    throw new KafkaSettingsInvalid(`${prefix}SASL_MECHANISM, _USERNAME and _PASSWORD must be given together`);
  const known = mechanisms.find((name) => name === mechanism.toLowerCase());
  if (!known)
    throw new KafkaSettingsInvalid(`${prefix}SASL_MECHANISM must be one of ${mechanisms.join(', ')}`);
  return { mechanism: known, username, password };
}

function read(
  settingOf: typeof readForeignSecret,
  name: string,
  environment: Environment,
): string | undefined {
  try {
    return settingOf(prefix + name, environment);
  } catch (error) {
    if (error instanceof SecretUnusable) throw new KafkaSettingsInvalid(error.message, { cause: error });
    throw error;
  }
}
