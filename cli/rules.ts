import { Command } from 'commander';
import { backtestCommand } from './rules/backtest.js';
import { checkCommand } from './rules/check.js';
import { diffCommand } from './rules/diff.js';
import { schemaCommand } from './rules/schema.js';
import { testCommand } from './rules/test.js';

export function rulesCommand(): Command {
  const rules = new Command('rules').description('Checks, tests and tries out rules before they are in force.');
  for (const command of [checkCommand, testCommand, backtestCommand, diffCommand, schemaCommand])
    rules.addCommand(command().exitOverride());
  return rules;
}
