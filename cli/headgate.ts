#!/usr/bin/env node
/** The one binary: long-running processes and the admin CLI. */
import { Command } from 'commander';
import { controlPlaneCommand } from './processes/control-plane.ts';
import { devCommand } from './processes/dev.ts';
import { gatewayCommand } from './processes/gateway.ts';
import { simNodeCommand } from './processes/sim-node.ts';

const program = new Command('headgate');
for (const register of [devCommand, controlPlaneCommand, gatewayCommand, simNodeCommand]) register(program);
await program.parseAsync();
