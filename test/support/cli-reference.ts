/** Generates docs/cli.md from the command tables, so that no other page needs to repeat the options. */
import type { Command, Option } from 'commander';
import { exitCodes } from '../../cli/terminal/errors.ts';
import { commandWords } from '../../cli/terminal/usage-errors.ts';

/**
 * Environment variables that do not stand for an option of a process. If a name ends in `_FILE`, the variable names a file
 * that contains the value.
 */
export const variables: readonly (readonly [name: string, meaning: string])[] = [
  ['HEADGATE_ADMIN', 'address of the control plane for admin commands, as `--admin`'],
  ['HEADGATE_TOKEN', 'token that admin commands send; `HEADGATE_OPERATOR_TOKEN` if this is unset'],
  [
    'HEADGATE_CONTEXT',
    'context file that `headgate dev` writes and admin commands read; by default `.headgate/context.json` in the working folder, in a folder above it, or in the home folder',
  ],
  [
    'HEADGATE_OPERATOR_TOKEN',
    'operator token of the admin API, at least 16 characters; or `HEADGATE_OPERATOR_TOKEN_FILE`',
  ],
  [
    'HEADGATE_GATEWAY_TOKEN',
    'token that gateways and control planes share, at least 16 characters; or `HEADGATE_GATEWAY_TOKEN_FILE`',
  ],
  [
    'HEADGATE_GATEWAY_TOKEN_PREVIOUS',
    'previous gateway token, which control planes also accept during a rotation; or `HEADGATE_GATEWAY_TOKEN_PREVIOUS_FILE`',
  ],
  ['HEADGATE_NODE_TOKEN', 'token of a node agent; or `HEADGATE_NODE_TOKEN_FILE`'],
  ['HEADGATE_NODE_CREDENTIAL_NAME', 'value of the node credential NAME, if `--node-credentials` is not set'],
  ['HEADGATE_SIGNING_KEY', 'PEM file with the Ed25519 key that signs the log'],
  [
    'HEADGATE_LOG_LEVEL',
    'trace, debug, info, warn, error, fatal or silent; by default info, in `headgate dev` warn',
  ],
  ['HEADGATE_KAFKA_TLS', '`system`: use TLS to the brokers, with the authorities that Node.js trusts'],
  [
    'HEADGATE_KAFKA_TLS_CA',
    'PEM file of the authority that signed the certificates of the brokers; turns TLS on',
  ],
  ['HEADGATE_KAFKA_TLS_CERT', 'PEM file of a client certificate, with `HEADGATE_KAFKA_TLS_KEY`'],
  ['HEADGATE_KAFKA_TLS_KEY', 'PEM file with the private key of that certificate'],
  ['HEADGATE_KAFKA_SASL_MECHANISM', 'SASL mechanism: plain, scram-sha-256 or scram-sha-512'],
  ['HEADGATE_KAFKA_SASL_USERNAME', 'user name for the mechanism'],
  ['HEADGATE_KAFKA_SASL_PASSWORD', 'password for the mechanism; or `HEADGATE_KAFKA_SASL_PASSWORD_FILE`'],
  ['NO_COLOR', 'print without colour, as `--no-color`'],
];

const cell = (text: string): string => text.replaceAll('|', '\\|').replaceAll('\n', ' ');
const code = (text: string): string => `\`${cell(text)}\``;

/** Begins the page with the commands that most readers look for, and a note on how the page is generated. */
const introduction = [
  'This page lists every command, option, variable and exit code of `headgate`.',
  '`headgate COMMAND --help` prints the same information with examples. In a checkout, type `npx headgate` instead of `headgate`.\n',
  '```',
  'headgate status                              # gateways in sync, nodes up, recent refusals',
  'headgate doctor                              # faults with the next step for each; exit 1 if there are any',
  'headgate key create --org acme --name laptop --expires 30d',
  'headgate requests list --outcome refused --since 1h',
  'headgate explain --org acme --model echo-large    # exit 1 if the request would be refused',
  '```\n',
  'Admin commands read the control plane and the token from the context file that `headgate dev` writes. Elsewhere, set',
  '`HEADGATE_ADMIN` and `HEADGATE_TOKEN`.\n',
  '`npm run reference` generates this page from the commands, and a test checks that it is up to date.\n',
];

export function referenceOf(program: Command): string {
  const [processes, admin] = [true, false].map((isProcess) =>
    program.commands.filter((command) => hasVariables(command) === isProcess),
  );
  return [
    '# Command line\n',
    ...introduction,
    '## Options of every admin command\n',
    optionTable(program.options, false),
    '## Exit codes\n',
    '| code | meaning |\n|--:|---|',
    ...Object.entries(exitCodes).map(([number, meaning]) => `| ${number} | ${cell(meaning)} |`),
    '',
    '## Processes\n',
    'Every option can also be set by its variable; the command line wins. An empty variable counts as unset, but the process',
    'does not start if the empty variable should contain a secret, locate a key or name a trusted party.\n',
    ...(processes ?? []).flatMap((command) => sections(command, 3)),
    '## Admin commands\n',
    ...[...(processes ?? []), ...(admin ?? [])].flatMap((command) =>
      hasVariables(command) ? command.commands.flatMap((inner) => sections(inner, 3)) : sections(command, 3),
    ),
    '## Variables\n',
    'These variables are available in addition to the variables in the tables of processes. `…_FILE` names a file that contains the value.\n',
    '| variable | meaning |\n|---|---|',
    ...variables.map(([name, meaning]) => `| ${code(name)} | ${cell(meaning)} |`),
    '',
  ].join('\n');
}

/** Whether the command reads options from environment variables. Only processes do. */
function hasVariables(command: Command): boolean {
  return command.options.some((option) => variableOf(option) !== undefined);
}

function variableOf({ envVar, description }: Option): string | undefined {
  return envVar ?? /\(env: (HEADGATE_\w+)=true\)$/.exec(description)?.[1];
}

function sections(command: Command, level: number): string[] {
  const isProcess = hasVariables(command);
  const inner = isProcess ? [] : command.commands.flatMap((each) => sections(each, level));
  const isNoun =
    command.commands.length > 0 && command.options.length === 0 && command.registeredArguments.length === 0;
  if (isNoun || command.name() === 'help') return inner;
  const operands = command.registeredArguments.map((operand) =>
    operand.required ? ` <${operand.name()}>` : ` [${operand.name()}]`,
  );
  const choices = command.registeredArguments.flatMap(({ argChoices }) => argChoices ?? []);
  return [
    `${'#'.repeat(level)} headgate ${commandWords(command).join(' ')}${operands.join('')}\n`,
    `${sentence(command.description())}${choices.length > 0 ? ` Choices: ${choices.join(', ')}.` : ''}\n`,
    ...(command.options.length > 0 ? [optionTable(command.options, isProcess)] : []),
    ...inner,
  ];
}

function sentence(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
}

function optionTable(options: readonly Option[], isProcess: boolean): string {
  const rows = options
    .filter(({ hidden }) => !hidden)
    .map((option) => {
      const variable = isProcess ? ` | ${code(variableOf(option) ?? '')}` : '';
      return `| ${code(option.flags)} | ${cell(meaningOf(option))} | ${defaultOf(option)}${variable} |`;
    });
  const head = isProcess
    ? '| option | meaning | default | variable |\n|---|---|---|---|'
    : '| option | meaning | default |\n|---|---|---|';
  return `${[head, ...rows].join('\n')}\n`;
}

function meaningOf({ description, argChoices }: Option): string {
  const text = description.replace(/ \(env: HEADGATE_\w+=true\)$/, '');
  return argChoices === undefined ? text : `${text} (choices: ${argChoices.join(', ')})`;
}

function defaultOf({ defaultValue, defaultValueDescription, mandatory, negate }: Option): string {
  if (mandatory && defaultValue === undefined) return 'required';
  if (negate || defaultValue === undefined) return '';
  if (Array.isArray(defaultValue) && defaultValue.length === 0) return '';
  return code(defaultValueDescription ?? String(defaultValue));
}
