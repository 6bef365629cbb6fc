/**
 * Network namespaces on a private bridge. Each acts as a machine with an address, its own /etc/hosts, and nftables rules for
 * incoming connections. The network of the real machine is not changed. Needs root, `ip` and `nft`.
 */
import { spawnSync } from 'node:child_process';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

export const missingTools = (): string[] => [
  ...(process.getuid?.() === 0 ? [] : ['root']),
  ...['ip', 'nft', 'openssl'].filter((tool) => spawnSync('sh', ['-c', `command -v ${tool}`]).status !== 0),
];

function run(command: string, args: readonly string[], input?: string): void {
  const { status, stderr } = spawnSync(command, args, {
    encoding: 'utf8',
    ...(input !== undefined && { input }),
  });
  if (status !== 0) throw new Error(`${command} ${args.join(' ')}: ${stderr}`);
}

export interface Machine {
  readonly address: string;
  /** Command prefix that runs a command in the namespace. */
  readonly within: readonly string[];
}

export class Namespaces {
  readonly machines = new Map<string, Machine>();
  /** Unique prefix of this process's namespaces, because their names are global to the real machine. */
  readonly #prefix = `hg${process.pid.toString(36)}`;
  readonly #lan = `${this.#prefix}-lan`;
  readonly #names: string[] = [];

  constructor() {
    this.#add(this.#lan);
    this.#ip('netns', 'exec', this.#lan, 'ip', 'link', 'add', 'lan', 'type', 'bridge');
    this.#ip('netns', 'exec', this.#lan, 'ip', 'link', 'set', 'lan', 'up');
  }

  /** Adds a machine with this name and connects it to the others. */
  join(name: string): Machine {
    const number = this.machines.size + 1;
    const namespace = `${this.#prefix}-${number}`;
    const address = `10.86.0.${number}`;
    this.#add(namespace);
    const [inside, outside] = ['eth0', `p${number}`];
    this.#ip(
      '-n',
      namespace,
      'link',
      'add',
      inside,
      'type',
      'veth',
      'peer',
      'name',
      outside,
      'netns',
      this.#lan,
    );
    this.#ip('-n', this.#lan, 'link', 'set', outside, 'master', 'lan', 'up');
    this.#ip('-n', namespace, 'address', 'add', `${address}/24`, 'dev', inside);
    for (const link of ['lo', inside]) this.#ip('-n', namespace, 'link', 'set', link, 'up');
    const machine = { address, within: ['ip', 'netns', 'exec', namespace] };
    this.machines.set(name, machine);
    return machine;
  }

  /** Sets the names that all machines can resolve. Each name maps to a list of machines. */
  setNames(names: ReadonlyMap<string, readonly string[]>): void {
    const lines = [...names].flatMap(([name, to]) => to.map((each) => `${this.#of(each).address} ${name}`));
    for (const namespace of this.#names)
      writeFileSync(join('/etc/netns', namespace, 'hosts'), `127.0.0.1 localhost\n${lines.join('\n')}\n`);
  }

  /** Makes a machine refuse all connections except its own and the allowed ones. */
  admit(name: string, allowed: readonly { readonly from: string; readonly port: number }[]): void {
    const accepts = allowed.map(
      ({ from, port }) => `ip saddr ${this.#of(from).address} tcp dport ${port} accept`,
    );
    const rules = [
      'iif "lo" accept',
      'ct state established,related accept',
      ...accepts,
      'meta l4proto tcp reject with tcp reset',
    ];
    const table = `flush ruleset\ntable inet admitted {\n chain incoming {\n  type filter hook input priority 0; policy accept;\n  ${rules.join('\n  ')}\n }\n}\n`;
    const [command = 'ip', ...words] = this.#of(name).within;
    run(command, [...words, 'nft', '-f', '-'], table);
  }

  close(): void {
    for (const namespace of this.#names.splice(0)) {
      spawnSync('ip', ['netns', 'delete', namespace]);
      rmSync(join('/etc/netns', namespace), { recursive: true, force: true });
    }
  }

  #add(namespace: string): void {
    mkdirSync(join('/etc/netns', namespace), { recursive: true });
    this.#names.push(namespace);
    this.#ip('netns', 'add', namespace);
  }

  #of(name: string): Machine {
    const machine = this.machines.get(name);
    if (machine === undefined) throw new Error(`there is no machine ${name}`);
    return machine;
  }

  #ip(...args: readonly string[]): void {
    run('ip', args);
  }
}
