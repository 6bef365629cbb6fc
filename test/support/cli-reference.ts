/** docs/cli.md, made from the tables of commands: what no other page has to repeat. */
import type { Command, Option } from 'commander';
import { exitCodes } from '../../cli/terminal/errors.ts';
import { wordsOf } from '../../cli/terminal/usage-errors.ts';

/** Those that are no option of any process. `…_FILE`: its value may be the name of a file instead. */
export const variables: readonly (readonly [name: string, meaning: string])[] = [
  ['HEADGATE_ADMIN', 'address of the control plane for the admin commands, as `--admin`'],
  ['HEADGATE_TOKEN', 'the token that admin commands send; `HEADGATE_OPERATOR_TOKEN` where it is unset'],
  [
    'HEADGATE_CONTEXT',
    'the context file that `headgate dev` writes and admin commands read; `.headgate/context.json` in the working folder, above it, or in the home folder by default',
  ],
  [
    'HEADGATE_OPERATOR_TOKEN',
    'token of the admin API, at least 16 characters; `HEADGATE_OPERATOR_TOKEN_FILE`',
  ],
  [
    'HEADGATE_GATEWAY_TOKEN',
    'token that gateways and control planes share, at least 16 characters; `HEADGATE_GATEWAY_TOKEN_FILE`',
  ],
  [
    'HEADGATE_GATEWAY_TOKEN_PREVIOUS',
    'the gateway token before a rotation, which control planes also accept; `HEADGATE_GATEWAY_TOKEN_PREVIOUS_FILE`',
  ],
  ['HEADGATE_NODE_TOKEN', 'token of a node agent; `HEADGATE_NODE_TOKEN_FILE`'],
  ['HEADGATE_NODE_CREDENTIAL_NAME', 'the credential NAME of a node, where `--node-credentials` is not set'],
  ['HEADGATE_SIGNING_KEY', 'Ed25519 PEM file that signs the log'],
  [
    'HEADGATE_LOG_LEVEL',
    'trace, debug, info, warn, error, fatal or silent; info by default, warn in `headgate dev`',
  ],
  ['HEADGATE_KAFKA_TLS', '`system`: TLS to the brokers with the authorities that Node.js trusts'],
  ['HEADGATE_KAFKA_TLS_CA', 'PEM file of the authority that signed the certificates of the brokers'],
  ['HEADGATE_KAFKA_TLS_CERT', 'PEM file of a client certificate, with `HEADGATE_KAFKA_TLS_KEY`'],
  ['HEADGATE_KAFKA_TLS_KEY', 'PEM file of its private key'],
  ['HEADGATE_KAFKA_SASL_MECHANISM', 'plain, scram-sha-256 or scram-sha-512'],
  ['HEADGATE_KAFKA_SASL_USERNAME', 'with the mechanism'],
  ['HEADGATE_KAFKA_SASL_PASSWORD', 'with the mechanism; `HEADGATE_KAFKA_SASL_PASSWORD_FILE`'],
  ['NO_COLOR', 'no colour, as `--no-color`'],
];

/** Between vertical bars. */
const cell = (text: string): string => text.replaceAll('|', '\\|').replaceAll('\n', ' ');
const code = (text: string): string => `\`${cell(text)}\``;

/** The page as Markdown. */
export function referenceOf(program: Command): string {
  const [processes, admin] = [true, false].map((isProcess) =>
    program.commands.filter((command) => hasVariables(command) === isProcess),
  );
  return [
    '# Command line\n',
    'Made from the commands themselves by `npm run reference`; a test compares. `headgate COMMAND --help` shows the same.\n',
    '## Options of every admin command\n',
    optionTable(program.options, false),
    '## Exit codes\n',
    '| code | meaning |\n|--:|---|',
    ...Object.entries(exitCodes).map(([number, meaning]) => `| ${number} | ${cell(meaning)} |`),
    '',
    '## Processes\n',
    'Each option of a process may be set by its variable; an option on the command line comes first. A variable that is empty counts',
    'as unset, and is refused where it says where a key is or who is trusted.\n',
    ...(processes ?? []).flatMap((command) => sections(command, 3)),
    '## Admin commands\n',
    ...[...(processes ?? []), ...(admin ?? [])].flatMap((command) =>
      hasVariables(command) ? command.commands.flatMap((inner) => sections(inner, 3)) : sections(command, 3),
    ),
    '## Variables\n',
    'In addition to those of the options of processes:\n',
    '| variable | meaning |\n|---|---|',
    ...variables.map(([name, meaning]) => `| ${code(name)} | ${cell(meaning)} |`),
    '',
  ].join('\n');
}

/** Only processes read their options from variables. */
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
    `${'#'.repeat(level)} headgate ${wordsOf(command).join(' ')}${operands.join('')}\n`,
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
  return argChoices === undefined ? text : `${text}: ${argChoices.join(', ')}`;
}

function defaultOf({ defaultValue, defaultValueDescription, mandatory, negate }: Option): string {
  if (mandatory && defaultValue === undefined) return 'required';
  if (negate || defaultValue === undefined) return '';
  if (Array.isArray(defaultValue) && defaultValue.length === 0) return '';
  return code(defaultValueDescription ?? String(defaultValue));
}
